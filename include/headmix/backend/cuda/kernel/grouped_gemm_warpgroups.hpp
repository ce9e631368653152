#pragma once
// SPDX-License-Identifier: MIT
// One weight matrix per expert with the products of warpgroups. A block goes through tiles of 256 slots of one expert
// and 64 or 128 columns, and through the depth 64 columns of x at a time. The four warps of the first warpgroup gather
// rows of x by asynchronous copies, one of its threads brings the weights by TMA; the other two warpgroups multiply,
// 128 slots each, while up to three further steps are on their way, those of the next tile while they write one. Where
// a tree is wanted of products with two stacks, a tile has 64 columns of each.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/stage_ring.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// A stack of matrices as one: below each other, or side by side.
struct stack_as_matrix {
  view<bfloat16 const> matrix;  ///< without data where it is neither
  int rows, cols;               ///< from one matrix of the stack to the next

  explicit stack_as_matrix(view<bfloat16 const> const& w) : matrix(w[0]), rows(0), cols(0) {
    if (w.count == 1) return;
    if (w.stack_stride == w.cols && w.row_stride >= w.count * w.cols) {
      cols = static_cast<int>(w.cols);
      matrix.cols = w.count * w.cols;
    } else if (w.row_stride > 0 && w.stack_stride % w.row_stride == 0 && w.stack_stride >= w.rows * w.row_stride) {
      rows = static_cast<int>(w.stack_stride / w.row_stride);
      matrix.rows = (w.count - 1) * rows + w.rows;
    } else {
      matrix.data = nullptr;
    }
  }
};

/// Whether an int can number the chunks of 16 bytes of the aligned rows of x.
[[nodiscard]] inline bool chunks_are_counted(view<bfloat16 const> const& x) {
  constexpr Index most = Index{1} << 31;
  Index const chunks = x.rows * (x.row_stride / 8);
  return chunks < most && -chunks < most;
}

/// What becomes of the product of a slot: it is y's row.
struct written_product {
  static constexpr int products = 1;
  view<bfloat16> y;

  [[nodiscard]] HEADMIX_DEVICE bfloat16* row(Int slot) const {
    return y.data + Index{slot} * static_cast<int>(y.row_stride);
  }
  /// Eight columns of the products, as they are in memory.
  template <class Device>
  HEADMIX_DEVICE void put(Device& device, bfloat16* row, Int, int col, words<4> const (&made)[products]) const {
    device.store16(row + col, made[0]);
  }
};
/// Or y's row is that of a tree over products with n stacks of weights, each of which is written, too, where it has
/// memory.
template <int n, class Tree>
struct mapped_products {
  static constexpr int products = n;
  view<bfloat16> y;
  Tree tree;
  view<bfloat16> product[n];

  [[nodiscard]] HEADMIX_DEVICE auto row(Int slot) const { return tree.lazy_row(slot); }
  template <class Device, class Row>
  HEADMIX_DEVICE void put(Device& device, Row const& row, Int slot, int col, words<4> const (&made)[n]) const {
    float_vector product_of[n];
    HEADMIX_UNROLL
    for (int p = 0; p < n; ++p) {
      product_of[p] = float_vector(float_vector::packed<bfloat16>{{made[p]}});
      if (product[p].data != nullptr) device.store16(at(product[p], slot, col), made[p]);
    }
    at_products(row, Index{col}, product_of).store(device, at(y, slot, col));
  }

 private:
  [[nodiscard]] static HEADMIX_DEVICE bfloat16* at(view<bfloat16> const& v, Int slot, int col) {
    return v.data + Index{slot} * static_cast<int>(v.row_stride) + col;
  }
};

/// bfloat16. Rows of x and of what is written, and of the weights or of their transposes, are aligned; weights have a
/// multiple of 64 rows and lie alike, and chunks of x are counted.
template <int columns, bool transposed, class TensorMap, class Output = written_product>
struct grouped_gemm_warpgroups {
  static constexpr int products = Output::products, own_columns = columns / products;  ///< of each product
  static_assert(columns == 64 || columns == 128);
  static_assert(own_columns % panel_columns == 0 && (products == 1 || !transposed));
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = 256, depth = panel_columns, stages = 4;
  static constexpr int own_rows = rows / 2;  ///< of a warpgroup, in two products of 64 rows
  static constexpr int left_bytes = rows * panel_row_bytes, right_bytes = depth * columns * 2;
  static constexpr int panels = transposed ? 1 : columns / panel_columns;  ///< of a tile of weights
  static constexpr int panel_rows = transposed ? columns : depth;
  static constexpr int rights_at = stages * left_bytes;
  using ring = stage_ring<stages, rights_at + stages * right_bytes>;
  /// What consumers have to know of a tile, with its first step: its slots, of which there are so many, its first
  /// column and the steps of its depth, 0 without an expert. A count of 0: there is no further tile.
  static constexpr int count_at = rows, col_at = rows + 1, steps_at = rows + 2, tile_bytes = (rows + 4) * 4;
  static constexpr int tiles_at = (ring::end + 15) / 16 * 16, shared_bytes = tiles_at + stages * tile_bytes;
  static constexpr int producers = 4, consumers = 8;  ///< warps
  static constexpr int on_their_way = 2;   ///< steps whose rows of x have not arrived when the next one is begun
  static constexpr int bring_barrier = 1;  ///< of the first warpgroup

  Output output;
  view<bfloat16 const> x;
  slot_lists slots;
  int inner;                     ///< rows of a weight
  int expert_rows, expert_cols;  ///< from one weight to the next in a map
  TensorMap weights[products];   ///< tiles of `panel_rows` rows

  [[nodiscard]] HEADMIX_HD int across() const { return static_cast<int>(blocks_for(output.y.cols, own_columns)); }
  [[nodiscard]] Index blocks(int processors) const {
    Index const most = tile_bound(slots.count(), slots.experts() + 1, rows) * across();
    return (std::min)(Index{processors}, most);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (device.thread() == 0) {
      ring::init(device, producers + 1, consumers);
      device.fence_async();  // copies see them
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template give_registers<72>();
      produce(device);
    } else {
      device.template take_registers<216>();
      consume(device);
    }
  }

 private:
  using copy = tile_copy<rows, depth, warpgroup_threads>;
  static constexpr int group_rows = 64, copies_of_group = group_rows / copy::rows_at_once;  ///< of a product

  [[nodiscard]] static HEADMIX_HD constexpr int tile_at(int stage) { return tiles_at + stage * tile_bytes; }

  /// Tiles are those of 256 slots, expert after expert, and then the experts' last ones of fewer: so blocks, which have
  /// every n-th, have about as many of either. Slots without an expert are those of one more.
  struct counted_tiles {
    int full = 0, all = 0;
  };
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE counted_tiles count_tiles(Device& device) const {
    counted_tiles found;
    each_32_experts(device, [&](int, Index, int full, int last) {
      int of_full = 0, of_last = 0;
      static_cast<void>(device.warp_exclusive_sum(full, of_full));
      static_cast<void>(device.warp_exclusive_sum(last > 0 ? 1 : 0, of_last));
      found.full += of_full;
      found.all += of_full + of_last;
      return true;
    });
    return found;
  }
  /// f(first of 32 experts, where the slots of the lane's begin, its full tiles, the slots of its last one) until it is
  /// false.
  template <class Device, class F>
  HEADMIX_DEVICE void each_32_experts(Device& device, F const& f) const {
    int const all = static_cast<int>(slots.experts()) + 1;
    HEADMIX_NO_UNROLL
    for (int first = 0; first < all; first += 32) {
      int const expert = first + device.lane();
      Index const begin = expert < all ? slots.begin(expert) : 0;
      int const count = expert < all ? static_cast<int>(slots.end(expert) - begin) : 0;
      if (!f(first, begin, count / rows, count % rows)) return;
    }
  }

  /// A tile, and two of its slots, those of rows `thread` and `thread` + 128; -1: none. A count of 0: there is no such
  /// tile.
  struct tile {
    int expert, count, col0;
    Int slot[2];
  };
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE tile find_tile(Device& device, counted_tiles const& all, int number) const {
    tile t = {0, 0, number % across() * own_columns, {-1, -1}};
    int left = number / across();  // tiles of its kind before it
    if (left >= all.all) return t;
    bool const is_full = left < all.full;
    if (!is_full) left -= all.full;
    each_32_experts(device, [&](int first, Index begin, int full, int last) {
      int const mine = is_full ? full : last > 0 ? 1 : 0;
      int total = 0;
      int const before = device.warp_exclusive_sum(mine, total);
      if (left >= total) {
        left -= total;
        return true;
      }
      int const lane = count_bits(device.ballot(before <= left)) - 1;  // the last one, since those behind it have more
      t.expert = first + lane;
      t.count = is_full ? rows : device.shuffle(last, lane);
      int const within = is_full ? left - device.shuffle(before, lane) : device.shuffle(full, lane);
      Index const place = device.shuffle(begin, lane) + Index{within} * rows;
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) {
        int const row = i * own_rows + device.thread();
        if (row < t.count) t.slot[i] = slots.slot(place + row);
      }
      return false;
    });
    return t;
  }

  template <class Device>
  HEADMIX_DEVICE void produce(Device& device) const {
    int const thread = device.thread(), every = static_cast<int>(device.blocks());
    int step = 0;
    auto const finish = [&] {
      device.commit_copies();
      if (step >= on_their_way) {
        device.template wait_copies<on_their_way>();
        ring::arrive_full(device, step - on_their_way);
      }
      ++step;
    };
    counted_tiles const all = count_tiles(device);
    int number = static_cast<int>(device.block());
    tile now = find_tile(device, all, number);
    HEADMIX_NO_UNROLL
    while (now.count > 0) {
      tile const next = find_tile(device, all, number += every);  // its slots are read while this one is brought
      int const steps = static_cast<Index>(now.expert) < slots.experts() ? inner / depth : 0;
      int chunk[copy::count];  // of x, of 16 bytes: where the thread's part of its rows begins
      HEADMIX_NO_UNROLL
      for (int s = 0; s == 0 || s < steps; ++s) {
        int const stage = ring::stage_of(step);
        ring::wait_empty(device, step);
        if (thread == 0) bring_weights(device, now, steps > 0, step, s * depth);
        if (s == 0) tell(device, now, steps, stage, chunk);
        auto const to = device.template shared<bfloat16>(stage * left_bytes);
        bfloat16 const* const from = x.data + s * depth;
        HEADMIX_UNROLL
        for (int n = 0; n < copy::count; ++n) {
          // 64 rows at a time, where one of them is there.
          if (n % copies_of_group == 0 && (n * copy::rows_at_once >= now.count || steps == 0)) break;
          device.copy_async16(to + copy::layout::offset(copy::row(thread, n), copy::col(thread) / 8),
                              from + Index{chunk[n]} * 8, true);
        }
        finish();
      }
      now = next;
    }
    ring::wait_empty(device, step);
    if (thread == 0) {
      device.template shared<int>(tile_at(ring::stage_of(step)))[count_at] = 0;
      device.arrive(ring::full(device, step));
    }
    finish();
    device.template wait_copies<0>();
    for (int s = step < on_their_way ? 0 : step - on_their_way; s < step; ++s) ring::arrive_full(device, s);
  }
  template <class Device>
  HEADMIX_DEVICE void bring_weights(Device& device, tile const& now, bool real, int step, int k0) const {
    auto const full = ring::full(device, step);
    if (!real) {
      device.arrive(full);
      return;
    }
    device.arrive_expecting(full, right_bytes);
    HEADMIX_UNROLL
    for (int i = 0; i < panels; ++i) {
      constexpr int of_product = transposed ? 1 : own_columns / panel_columns;
      int const n = now.col0 + i % of_product * panel_columns;
      device.copy_tile(
          device.template shared<bfloat16>(rights_at + ring::stage_of(step) * right_bytes + i * (right_bytes / panels)),
          weights[i / of_product], now.expert * expert_rows + (transposed ? n : k0),
          now.expert * expert_cols + (transposed ? k0 : n), full);
    }
  }
  /// Tells consumers, and the first warpgroup itself, what it has to know.
  template <class Device>
  HEADMIX_DEVICE void tell(Device& device, tile const& now, int steps, int stage, int (&chunk)[copy::count]) const {
    int const thread = device.thread(), chunks_of_row = static_cast<int>(x.row_stride / 8);
    auto const of_tile = device.template shared<int>(tile_at(stage));
    of_tile[thread] = now.slot[0];
    of_tile[own_rows + thread] = now.slot[1];
    if (thread == 0) {
      of_tile[count_at] = now.count;
      of_tile[col_at] = now.col0;
      of_tile[steps_at] = steps;
    }
    device.template sync_named<warpgroup_threads>(bring_barrier);
    HEADMIX_UNROLL
    for (int n = 0; n < copy::count; ++n) {
      Int const slot = of_tile[copy::row(thread, n)];  // a row that is not there is that of the first
      chunk[n] = slots.row_of(slot < 0 ? Int(of_tile[0]) : slot) * chunks_of_row + copy::col(thread) / 8;
    }
  }

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device) const {
    constexpr int blocks = columns / 8;
    int const first_row = (device.warpgroup() - 1) * own_rows, lane = device.lane();
    int const own = first_row + device.warp() % 4 * 16 + lane / 4;  // and 8, 64 and 72 rows below
    float sum[2][blocks][4] = {};
    int step = 0;
    HEADMIX_NO_UNROLL
    for (;;) {
      ring::wait_full(device, step);
      auto const of_tile = device.template shared<int>(tile_at(ring::stage_of(step)));
      int const count = of_tile[count_at];
      if (count == 0) return;
      int const col0 = of_tile[col_at], steps = of_tile[steps_at];
      Int slot[2][2];  // -1: none
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        HEADMIX_UNROLL
        for (int below = 0; below < 2; ++below) slot[half][below] = of_tile[own + half * group_rows + 8 * below];
      }
      if (steps > 0 && first_row + group_rows < count) {
        multiply<2>(device, sum, step, steps, first_row);
      } else if (steps > 0 && first_row < count) {
        multiply<1>(device, sum, step, steps, first_row);
      } else {
        HEADMIX_UNROLL
        for (int i = 0; i < 2 * blocks; ++i) {
          auto& zeros = sum[i / blocks][i % blocks];
          zeros[0] = zeros[1] = zeros[2] = zeros[3] = 0;
        }
        for (int s = 0; s == 0 || s < steps; ++s, ++step) {
          if (s > 0) ring::wait_full(device, step);
          ring::arrive_empty(device, step);
        }
      }
      if (first_row < count) write(device, sum, slot, col0);
    }
  }

  /// The products of one or two groups of 64 rows of a tile, from `step` on, which is the one behind them then.
  template <int groups, class Device>
  HEADMIX_DEVICE void multiply(Device& device, float (&sum)[2][columns / 8][4], int& step, int steps,
                               int first_row) const {
    constexpr int eight_rows = 8 * panel_row_bytes;
    HEADMIX_NO_UNROLL
    for (int s = 0; s < steps; ++s, ++step) {
      int const stage = ring::stage_of(step);
      matrix_descriptor const left = device.describe(
          device.template shared<bfloat16>(stage * left_bytes + first_row * panel_row_bytes), 16, eight_rows);
      matrix_descriptor const right = device.describe(device.template shared<bfloat16>(rights_at + stage * right_bytes),
                                                      right_bytes / panels, eight_rows);
      if (s > 0) ring::wait_full(device, step);
      device.fence_products(sum[0], sum[groups - 1]);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        HEADMIX_UNROLL
        for (int half = 0; half < groups; ++half) {
          matrix_descriptor const a = left.after(half * (group_rows * panel_row_bytes) + 32 * k);
          if constexpr (transposed) {
            device.multiply_tiles(sum[half], a, right.after(32 * k), s > 0 || k > 0);
          } else {
            device.multiply_across(sum[half], a, right.after(16 * panel_row_bytes * k), s > 0 || k > 0);
          }
        }
      }
      device.commit_products();
      device.template wait_products<1>();
      if (s > 0) ring::arrive_empty(device, step - 1);
    }
    device.template wait_products<0>(sum[0], sum[groups - 1]);
    ring::arrive_empty(device, step - 1);
  }

  /// Rows of products, 16 bytes at a time: four lanes have the pairs of each other's eight columns.
  template <class Device>
  HEADMIX_DEVICE void write(Device& device, float (&sum)[2][columns / 8][4], Int const (&slot)[2][2], int col0) const {
    int const width = static_cast<int>(output.y.cols);
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int below = 0; below < 2; ++below) {
        Int const to = slot[half][below];
        auto const row = output.row(to < 0 ? 0 : to);
        HEADMIX_UNROLL
        for (int j = 0; j < own_columns / 8; j += 4) {
          words<4> eight[products];
          HEADMIX_UNROLL
          for (int p = 0; p < products; ++p) {
            HEADMIX_UNROLL
            for (int n = 0; n < 4; ++n) {
              float const(&pair)[4] = sum[half][p * (own_columns / 8) + j + n];
              eight[p].word[n] = pack(pair[2 * below], pair[2 * below + 1]);
            }
            transpose_words(device, eight[p]);
          }
          int const col = col0 + 8 * (j + device.lane() % 4);
          if (to >= 0 && col < width) output.put(device, row, to, col, eight);
        }
      }
    }
  }
};

/// Whether warpgroups do products with weights of these extents.
template <class Queue>
[[nodiscard]] bool warpgroups_multiply(Queue const& queue, view<bfloat16 const> const& w) {
  if constexpr (WarpgroupQueue<Queue>) {
    return queue.warpgroups() && w.count > 0 && w.rows % panel_columns == 0;
  } else {
    return false;
  }
}

/// What becomes of the products of slots with weights of the same extents, by warpgroups; false where they do not do
/// it: for their extents, because weights are no matrix, or lie otherwise than each other. Rows of x and of what is
/// written, and of the weights or (`transposed`) of their transposes, are aligned.
template <bool transposed, class Queue, class Output>
bool grouped_gemm_by_warpgroups(Queue& queue, Output const& output, view<bfloat16 const> x,
                                std::array<view<bfloat16 const>, Output::products> const& w, slot_lists const& slots) {
  if constexpr (WarpgroupQueue<Queue>) {
    if (!warpgroups_multiply(queue, w[0]) || !chunks_are_counted(x)) return false;
    auto const stack = [](view<bfloat16 const> const& v) { return stack_as_matrix(transposed ? v.transposed() : v); };
    stack_as_matrix const first = stack(w[0]);
    for (view<bfloat16 const> const& v : w) {
      stack_as_matrix const all = stack(v);
      if (all.matrix.data == nullptr || all.rows != first.rows || all.cols != first.cols) return false;
    }
    auto const launch = [&]<int columns>(std::integral_constant<int, columns>) {
      using kernel = grouped_gemm_warpgroups<columns, transposed, typename Queue::tensor_map, Output>;
      kernel k{output, x, slots, static_cast<int>(w[0].rows), first.rows, first.cols, {}};
      for (std::size_t p = 0; p < w.size(); ++p) {
        k.weights[p] = queue.map_tensor(stack(w[p]).matrix, kernel::panel_rows);
      }
      queue.launch(k, k.blocks(queue.processors()));
    };
    if (Output::products == 1 && output.y.cols <= 64) {
      launch(std::integral_constant<int, 64 * Output::products>{});
    } else {
      launch(std::integral_constant<int, 128>{});
    }
    return true;
  } else {
    return false;
  }
}

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS
