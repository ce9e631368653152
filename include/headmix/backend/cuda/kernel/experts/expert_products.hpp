#pragma once
// SPDX-License-Identifier: MIT
// Common parts of warpgroup products with the weights of experts: operands, tile assignment, the MMAs of a step, and
// epilogues.

#include <cstdint>
#include <utility>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Epilogue: the product of a slot is stored as y's row.
struct store_epilogue {
  static constexpr int products = 1;
  view<bfloat16> y;

  /// Data of a slot's row, loaded before its products.
  struct row_data {};
  [[nodiscard]] HEADMIX_DEVICE row_data row(Int) const { return {}; }
  /// y for eight columns, from their products as stored in memory.
  [[nodiscard]] HEADMIX_DEVICE words<4> apply(row_data, int, words<4> const (&product_chunks)[products]) const {
    return product_chunks[0];
  }
  template <class Device>
  HEADMIX_DEVICE void store(Device& device, Int slot, int col, words<4> const& of_y,
                            words<4> const (&)[products]) const {
    device.store16(y.data + Index{slot} * static_cast<int>(y.row_stride) + col, of_y);
  }
  static constexpr bool keeps_products = false;
};
/// Epilogue: y's row is a tree over products with n stacks of weights; products with memory are stored too.
template <int n, class Tree>
struct map_epilogue {
  static constexpr int products = n;
  view<bfloat16> y;
  Tree tree;
  view<bfloat16> product[n];
  static constexpr bool keeps_products = true;

  [[nodiscard]] HEADMIX_DEVICE auto row(Int slot) const { return tree.lazy_row(slot); }
  template <class Row>
  [[nodiscard]] HEADMIX_DEVICE words<4> apply(Row const& row, int col, words<4> const (&product_chunks)[n]) const {
    float_vector product_of[n];
    HEADMIX_UNROLL
    for (int p = 0; p < n; ++p) product_of[p] = float_vector(float_vector::packed<bfloat16>{{product_chunks[p]}});
    return at_products(row, Index{col}, product_of).template packed_as<bfloat16>().part[0];
  }
  template <class Device>
  HEADMIX_DEVICE void store(Device& device, Int slot, int col, words<4> const& of_y,
                            words<4> const (&product_chunks)[n]) const {
    HEADMIX_UNROLL
    for (int p = 0; p < n; ++p) {
      if (product[p].data != nullptr) store_chunk(device, product[p], slot, col, product_chunks[p]);
    }
    store_chunk(device, y, slot, col, of_y);
  }

 private:
  template <class Device>
  static HEADMIX_DEVICE void store_chunk(Device& device, view<bfloat16> const& v, Int slot, int col,
                                         words<4> const& eight) {
    device.store16(v.data + Index{slot} * static_cast<int>(v.row_stride) + col, eight);
  }
};

/// Common parts of kernels in which two warpgroups multiply gathered rows with the weights of experts, 128 of 256 slots
/// each, and a third one loads both operands. bfloat16. Rows of x and of the outputs, and of the weights or their
/// transposes, are aligned; weights have a multiple of 64 rows and equal layouts, and an int can number the chunks of
/// x.
///
/// @tparam sources  products with rows of so many matrices are summed; these have equal extents and strides
template <int columns, bool transposed, class TensorMap, class Output, int sources = 1>
struct expert_products {
  static constexpr int products = Output::products, product_columns = columns / products;
  static_assert(columns == 64 || columns == 128, "headmix: a tile of experts' products has 64 or 128 columns");
  static_assert(product_columns % panel_columns == 0 && (products == 1 || (!transposed && sources == 1)),
                "headmix: panels divide a warp's columns, and transposed weights and sums go with one product");
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr int producer_registers = tuning::sm90a::grouped_gemm.registers.producer;
  static constexpr int consumer_registers = tuning::sm90a::grouped_gemm.registers.consumer;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = tuning::sm90a::grouped_gemm.rows, depth = panel_columns;
  static constexpr int warpgroup_rows = rows / 2, mma_rows = 64;  ///< rows of a warpgroup, and of an MMA
  static constexpr int a_bytes = rows * panel_row_bytes, b_bytes = depth * columns * 2;
  static constexpr int panels = transposed ? 1 : columns / panel_columns;  ///< panels of a tile of weights
  static constexpr int panel_rows = transposed ? columns : depth;
  static constexpr int consumers = 8;  ///< number of warps
  /// The largest shared memory of a block, whose end holds the offsets of the experts' slots, as far as they fit.
  static constexpr int shared_bytes = 227 * 1024, max_begins = tuning::sm90a::grouped_gemm.shared_offsets,
                       begins_at = shared_bytes - max_begins * 4;
  using sums = float[2][columns / 8][4];

  Output output;
  view<bfloat16 const> x[sources];
  slot_lists slots;
  int inner;                              ///< rows of a weight
  int expert_rows, expert_cols;           ///< distance from one weight to the next in a map
  TensorMap weights[sources * products];  ///< for tiles of `panel_rows` rows

  [[nodiscard]] HEADMIX_HD int column_tiles() const {
    return static_cast<int>(blocks_for(output.y.cols, product_columns));
  }

 protected:
  /// Full tiles of 256 slots of an expert, or of no expert, in expert order, then the partial tiles. Blocks take every
  /// n-th tile, so each block has about as many full and partial tiles.
  struct tile_counts {
    int full = 0, all = 0;
  };
  /// At most 256 slots from element `begin` of the list on; a count of 0: no such tile.
  struct slots_of_tile {
    int expert = 0, count = 0;
    int begin = 0;
  };
  /// Called by all threads before a barrier of the block.
  template <class Device>
  HEADMIX_DEVICE void read_begins(Device& device) const {
    int const n = static_cast<int>(slots.experts()) + 2;
    auto const begins = device.template shared<int>(begins_at);
    for (int e = device.thread(); n <= max_begins && e < n; e += threads) begins[e] = static_cast<int>(slots.begin(e));
  }
  /// Called by all lanes of a warp, as the next two functions.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE tile_counts count_tiles(Device& device) const {
    tile_counts found;
    for_each_32_experts(device, [&](int, int, int full, int last) {
      int of_full = 0, of_last = 0;
      static_cast<void>(device.warp_exclusive_sum(full, of_full));
      static_cast<void>(device.warp_exclusive_sum(last > 0 ? 1 : 0, of_last));
      found.full += of_full;
      found.all += of_full + of_last;
      return true;
    });
    return found;
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE slots_of_tile find_slots(Device& device, tile_counts const& all, int number) const {
    slots_of_tile t;
    int left = number;  // number of tiles of its kind before it
    if (left >= all.all) return t;
    bool const is_full = left < all.full;
    if (!is_full) left -= all.full;
    for_each_32_experts(device, [&](int first, int begin, int full, int last) {
      int const lane_tiles = is_full ? full : last > 0 ? 1 : 0;
      int total = 0;
      int const before = device.warp_exclusive_sum(lane_tiles, total);
      if (left >= total) {
        left -= total;
        return true;
      }
      int const lane = count_bits(device.ballot(before <= left)) - 1;  // the last one, since later ones have more
      t.expert = first + lane;
      t.count = is_full ? rows : device.shuffle(last, lane);
      int const within = is_full ? left - device.shuffle(before, lane) : device.shuffle(full, lane);
      t.begin = device.shuffle(begin, lane) + within * rows;
      return false;
    });
    return t;
  }
  /// Calls f(first of 32 experts, first slot of the lane's expert, its full tiles, the slots of its partial tile) until
  /// it returns false.
  template <class Device, class F>
  HEADMIX_DEVICE void for_each_32_experts(Device& device, F const& f) const {
    int const all = static_cast<int>(slots.experts()) + 1;
    auto const begins = device.template shared<int>(begins_at);
    auto const begin_of = [&](int e) {
      return all < max_begins ? static_cast<int>(begins[e]) : static_cast<int>(slots.begin(e));
    };
    HEADMIX_NO_UNROLL
    for (int first = 0; first < all; first += 32) {
      int const expert = first + device.lane();
      int const begin = expert < all ? begin_of(expert) : 0;
      int const count = expert < all ? begin_of(expert + 1) - begin : 0;
      if (!f(first, begin, count / rows, count % rows)) return;
    }
  }
  [[nodiscard]] HEADMIX_DEVICE int steps_of(int expert) const {
    return static_cast<Index>(expert) < slots.experts() ? inner / depth : 0;
  }
  /// Loads rows k0 .. k0 + depth - 1 and the columns from col0 on, by one thread.
  template <class Device, class Barrier>
  HEADMIX_DEVICE void load_weights(Device& device, int to, Barrier const& full, int expert, int col0, int k0,
                                   int source = 0) const {
    constexpr int of_product = transposed ? 1 : product_columns / panel_columns;
    device.arrive_expect_tx(full, b_bytes);
    HEADMIX_UNROLL
    for (int i = 0; i < panels; ++i) {
      int const n = col0 + i % of_product * panel_columns;
      device.tma_load(device.template shared<bfloat16>(to + i * (b_bytes / panels)), weights[source + i / of_product],
                      expert * expert_rows + (transposed ? n : k0), expert * expert_cols + (transposed ? k0 : n), full);
    }
  }
  /// Issues the MMAs of a step of the depth, also where the second 64 rows are missing: a branch cost a third of a
  /// short kernel's time, since accumulators leave their registers where branches join.
  template <class Device>
  HEADMIX_DEVICE void multiply_step(Device& device, sums& sum, int a_at, int b_at, bool adds) const {
    constexpr int eight_rows = 8 * panel_row_bytes;
    matrix_descriptor const left = device.describe(device.template shared<bfloat16>(a_at), 16, eight_rows);
    matrix_descriptor const right =
        device.describe(device.template shared<bfloat16>(b_at), b_bytes / panels, eight_rows);
    device.wgmma_fence(sum[0], sum[1]);
    HEADMIX_UNROLL
    for (int k = 0; k < depth / 16; ++k) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        matrix_descriptor const a = left.after(half * (mma_rows * panel_row_bytes) + 32 * k);
        if constexpr (transposed) {
          device.wgmma_k_k(sum[half], a, right.after(32 * k), adds || k > 0);
        } else {
          device.wgmma_k_mn(sum[half], a, right.after(16 * panel_row_bytes * k), adds || k > 0);
        }
      }
    }
    device.wgmma_commit();
  }
  HEADMIX_DEVICE static void clear(sums& sum) {
    HEADMIX_UNROLL
    for (int i = 0; i < 2 * (columns / 8); ++i) {
      auto& zeros = sum[i / (columns / 8)][i % (columns / 8)];
      zeros[0] = zeros[1] = zeros[2] = zeros[3] = 0;
    }
  }
  using row_of_output = decltype(std::declval<Output const&>().row(Int{}));
  /// The rows of a thread's accumulators: of both MMAs, and eight rows below.
  struct accumulator_rows {
    Int slot[2][2], neighbour_slot[2][2];  ///< of the row, and of the row of the neighbouring lanes; -1: none
    row_of_output row[2][2];
  };
  template <class Device, class Slots>
  [[nodiscard]] HEADMIX_DEVICE accumulator_rows read_rows(Device& device, Slots const& of_tile) const {
    int const thread_row = (device.warpgroup() - 1) * warpgroup_rows + device.warp() % 4 * 16 + device.lane() / 4;
    auto const slot = [&](int half, int below, int flip) -> Int {
      return of_tile[(thread_row ^ flip) + half * mma_rows + 8 * below];
    };
    auto const row = [&](int half, int below) {
      Int const of = slot(half, below, 0);
      return output.row(of < 0 ? 0 : of);
    };
    return {{{slot(0, 0, 0), slot(0, 1, 0)}, {slot(1, 0, 0), slot(1, 1, 0)}},
            {{slot(0, 0, 1), slot(0, 1, 1)}, {slot(1, 0, 1), slot(1, 1, 1)}},
            {{row(0, 0), row(0, 1)}, {row(1, 0), row(1, 1)}}};
  }
  /// Stores 16 bytes at a time: four lanes exchange the pairs of each other's eight columns, and store 128 bytes of a
  /// row together with the four neighbouring lanes, whose next row they store afterwards. All addresses of a row are
  /// computed before the first store; a warp waits for no other.
  template <class Device>
  HEADMIX_DEVICE void write(Device& device, sums const& sum, accumulator_rows const& rows_of_thread, int col0) const {
    constexpr int parts = product_columns / 32;  // of a row, 64 bytes each
    int const width = static_cast<int>(output.y.cols), lane = device.lane();
    bool const odd = lane / 4 % 2 != 0;
    auto const col_of = [&](int part) { return col0 + 32 * part + 8 * (lane % 4); };
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int below = 0; below < 2; ++below) {
        words<4> product_chunks[parts][products], of_y[parts];
        HEADMIX_UNROLL
        for (int j = 0; j < parts; ++j) {
          HEADMIX_UNROLL
          for (int p = 0; p < products; ++p) {
            HEADMIX_UNROLL
            for (int n = 0; n < 4; ++n) {
              float const(&pair)[4] = sum[half][p * (product_columns / 8) + 4 * j + n];
              product_chunks[j][p].word[n] = pack(pair[2 * below], pair[2 * below + 1]);
            }
            transpose_words(device, product_chunks[j][p]);
          }
        }
        HEADMIX_UNROLL
        for (int j = 0; j < parts; ++j) {
          int const col = col_of(j);
          of_y[j] = output.apply(rows_of_thread.row[half][below], col < width ? col : 0, product_chunks[j]);
        }
        HEADMIX_UNROLL
        for (int j = 0; j < parts; j += 2) {
          swap_parts(device, odd, of_y[j], of_y[j + 1]);
          if constexpr (Output::keeps_products) {
            HEADMIX_UNROLL
            for (int p = 0; p < products; ++p) swap_parts(device, odd, product_chunks[j][p], product_chunks[j + 1][p]);
          }
        }
        Int const own_slot = rows_of_thread.slot[half][below],
                  neighbour_slot = rows_of_thread.neighbour_slot[half][below];
        HEADMIX_UNROLL
        for (int j = 0; j < parts; ++j) {
          int const col = col_of(j / 2 * 2 + odd);
          Int const to = odd == (j % 2 != 0) ? own_slot : neighbour_slot;
          if (to >= 0 && col < width) output.store(device, to, col, of_y[j], product_chunks[j]);
        }
      }
    }
  }
  /// Each lane keeps one of two parts of a row and exchanges the other for that of the neighbouring row: the first part
  /// then belongs to the lower row, the second to the upper one.
  template <class Device>
  static HEADMIX_DEVICE void swap_parts(Device& device, bool odd, words<4>& first, words<4>& second) {
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      std::uint32_t& low = first.word[i];
      std::uint32_t& high = second.word[i];
      std::uint32_t const got = device.shuffle_xor(odd ? low : high, 4);
      low = odd ? got : low;
      high = odd ? high : got;
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
