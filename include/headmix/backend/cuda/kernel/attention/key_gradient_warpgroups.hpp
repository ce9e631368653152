#pragma once
// SPDX-License-Identifier: MIT
// d_k and d_v of attention with warpgroup MMAs. A block has 128 keys and values. The four warps of the first of its
// three warpgroups gather the rows that see them and their gradients, 64 at a time, into a ring of stages; the other
// two have 64 keys each. They recompute transposed probabilities, a row for each key, so that probabilities and score
// gradients are A operands in registers.

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/key_gradient.hpp"
#include "headmix/backend/cuda/kernel/attention/ring.hpp"
#include "headmix/backend/cuda/kernel/products/stage_ring.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// bfloat16, heads of 64 or 128 columns, no score map, no dropout. Rows are aligned, the list satisfies is_small, and
/// there is at least one key.
template <AttentionMask Mask, class Map, int width, class TensorMap>
struct attention_key_gradient_warpgroups {
  static_assert(Map::identity && (width == 64 || width == 128),
                "headmix: warpgroups compute attention without score maps, with heads of 64 or 128");
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int keys = 128, panels = width / panel_columns;
  static constexpr int rows = tuning::sm90a::key_gradient.rows, stages = tuning::sm90a::key_gradient.stages;
  static constexpr int producer_registers = tuning::sm90a::key_gradient.registers.producer;
  static constexpr int consumer_registers = tuning::sm90a::key_gradient.registers.consumer;
  static constexpr int warpgroup_keys = keys / 2;
  static constexpr int key_bytes = keys * width * 2, row_bytes = rows * width * 2;
  static constexpr int key_panel_bytes = keys * panel_row_bytes, row_panel_bytes = rows * panel_row_bytes;
  static constexpr int stages_at = 2 * key_bytes;  ///< rows and their gradients of each stage
  using ring = stage_ring<stages, stages_at + stages * 2 * row_bytes>;
  static constexpr int keys_full_at = ring::end;  ///< a barrier
  static constexpr int statistics_at = keys_full_at + 16;
  static constexpr int row_ranges_at = statistics_at + stages * 2 * rows * 4;
  static constexpr int non_finite_at = row_ranges_at + stages * 3 * rows * 4;  ///< flags of rows, then of gradients
  static constexpr int states_at = non_finite_at + stages * 2 * rows * 4;
  static constexpr int block_state_at = states_at + stages * 16;
  static constexpr int row_offsets_at = block_state_at + 12 * 4;  ///< of two tiles
  static constexpr int shared_bytes = row_offsets_at + 2 * 3 * rows * 4;
  static constexpr int producers = 4, consumers = 8;  ///< warps
  static constexpr int tiles_in_flight = tuning::sm90a::key_gradient.in_flight;
  static constexpr int warpgroup_barrier = 1;  ///< named barriers 1, 2 and 3: of a warpgroup
  /// State of a stage: its rows see every key, or not all do, or it marks the end.
  static constexpr int covered = 1, partial = 0, end = -1;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors divisors;
  float scale, last_scale;
  attention_parts parts;
  listed_tiles listed;
  TensorMap map_of_k, map_of_v;  ///< for tiles of `keys` rows

  [[nodiscard]] Index blocks() const { return tiles.count() * parts.count; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const block_tile = tiles(device.block() / parts.count);
    small_keys const all_keys(x, block_tile, divisors, width);
    if (block_tile.first >= all_keys.count) return;
    int const first_key = static_cast<int>(block_tile.first);
    auto const ints = device.template shared<int>(block_state_at);
    key_block<std::remove_cv_t<decltype(ints)>> const block_state{ints};
    if (device.thread() == 0) {
      block_state.init(x, block_tile, all_keys, static_cast<int>(device.block() % parts.count), listed, divisors, rows);
      ring::init(device, producers, 0, consumers);
      device.mbarrier_init(keys_full(device), 1);
      device.fence_proxy_async();  // visible to copies
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<producer_registers>();
      if (device.thread() == 0) load_keys(device, all_keys.begin + first_key, all_keys.col);
      produce(device, block_state);
    } else {
      device.template setmaxnreg_inc<consumer_registers>();
      consume(device, block_state);
    }
  }

 private:
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto keys_full(Device& device) {
    return device.template shared<std::uint64_t>(keys_full_at);
  }
  [[nodiscard]] static HEADMIX_HD constexpr int rows_at(int stage) { return stages_at + 2 * stage * row_bytes; }
  [[nodiscard]] static HEADMIX_HD constexpr int gradients_at(int stage) { return rows_at(stage) + row_bytes; }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto statistics_of(Device& device, int stage) {
    return device.template shared<float>(statistics_at + stage * 2 * rows * 4);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto row_ranges_of(Device& device, int stage) {
    return device.template shared<int>(row_ranges_at + stage * 3 * rows * 4);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto non_finite_rows(Device& device, int stage) {
    return device.template shared<int>(non_finite_at + stage * 2 * rows * 4);
  }

  /// Stages are 16 bytes apart, the granularity of the emulator for reads by several warps.
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto state_of(Device& device, int stage) {
    return device.template shared<int>(states_at + stage * 16);
  }

  template <class Device>
  HEADMIX_DEVICE void load_keys(Device& device, int row, int col) const {
    device.arrive_expect_tx(keys_full(device), 2 * key_bytes);
    HEADMIX_UNROLL
    for (int i = 0; i < panels; ++i) {
      device.tma_load(device.template shared<bfloat16>(i * key_panel_bytes), map_of_k, row, col + i * panel_columns,
                      keys_full(device));
      device.tma_load(device.template shared<bfloat16>(key_bytes + i * key_panel_bytes), map_of_v, row,
                      col + i * panel_columns, keys_full(device));
    }
  }

  using row_copy = tile_copy<rows, panel_columns, warpgroup_threads>;

  /// Gathers the rows at these offsets, and their gradients.
  template <class Device, class Offsets>
  HEADMIX_DEVICE void load_rows(Device& device, int stage, Offsets const& row_offsets) const {
    constexpr int count = row_copy::count;
    int const thread = device.thread(), col = row_copy::col(thread);
    bfloat16 const *of_q[count], *of_d[count];
    bool valid[count];
    HEADMIX_UNROLL
    for (int n = 0; n < count; ++n) {
      int const r = row_copy::row(thread, n), row = row_offsets.row(r), first = row_offsets.col(r) + col;
      valid[n] = row >= 0;
      of_q[n] = p.q.data + (valid[n] ? row * p.q.row_stride + first : 0);
      of_d[n] = p.d_o.data + (valid[n] ? row * p.d_o.row_stride + first : 0);
    }
    HEADMIX_UNROLL
    for (int i = 0; i < panels; ++i) {
      row_copy::start_from(device, device.template shared<bfloat16>(rows_at(stage) + i * row_panel_bytes), thread, of_q,
                           valid, i * panel_columns);
      row_copy::start_from(device, device.template shared<bfloat16>(gradients_at(stage) + i * row_panel_bytes), thread,
                           of_d, valid, i * panel_columns);
    }
  }

  template <class Device, class State>
  HEADMIX_DEVICE void produce(Device& device, State const& block_state) const {
    int const thread = device.thread();
    visible_tiles<Mask, rows, keys> order;
    // The warp's rows of that tile have arrived in shared memory.
    auto const arrived = [&](int tile) {
      int const stage = ring::stage_of(tile);
      if (*state_of(device, stage) == partial) {
        sanitize(device, gradients_at(stage), non_finite_rows(device, stage) + rows);
        sanitize(device, rows_at(stage), non_finite_rows(device, stage));
      }
      ring::arrive_full(device, tile);
    };
    int tile = 0;  // among the tiles that see the keys
    HEADMIX_NO_UNROLL
    for (;; ++tile) {
      int const number = order.next(device, block_state, listed, divisors, static_cast<int>(parts.count)),
                stage = ring::stage_of(tile);
      auto const numbers = device.template shared<int>(row_offsets_at + tile % 2 * 3 * rows * 4);
      shared_row_offsets<3, std::remove_cv_t<decltype(numbers)>> const row_offsets{numbers};
      float_pair of_row = {0.f, 0.f};  // shift and delta of the thread's row
      if (number >= 0 && thread < rows) {
        small_row_list list = block_state.list(p.extents.chosen.slots);
        int i = number * rows + thread;
        if (listed.data) {
          listed_tile const* const at = listed.data + (block_state.first_tile() + number);
          i = device.load(&at->first);
          list.end = i + device.load(&at->count);
          i += thread;
        }
        row_offset const offset = list.offset_of(i, width, divisors);
        row_offsets.store(thread, offset);
        if (offset.row >= 0) {
          of_row = device.load(reinterpret_cast<float_pair const*>(statistics.shift(offset.row, offset.col / width)));
        }
      }
      ring::wait_empty(device, tile);
      if (thread == 0) *state_of(device, stage) = number < 0 ? end : order.covers ? covered : partial;
      device.template sync_named<warpgroup_threads>(warpgroup_barrier);  // row offsets and state are written
      if (number < 0) break;
      load_rows(device, stage, row_offsets);
      device.cp_async_commit();
      if (thread < rows) {
        auto const of_stage = statistics_of(device, stage);
        of_stage[thread] = of_row.low;
        of_stage[rows + thread] = of_row.high;
        if (!order.covers) {
          store_visible_range(row_ranges_of(device, stage), thread,
                              visible_range_of_row<Mask>(row_offsets.row(thread) >= 0, row_offsets.position(thread),
                                                         block_state.key_count()));
        }
      }
      if (tile < tiles_in_flight) continue;
      device.template cp_async_wait<tiles_in_flight>();
      arrived(tile - tiles_in_flight);
    }
    device.template cp_async_wait<0>();
    for (int last = tile < tiles_in_flight ? 0 : tile - tiles_in_flight; last < tile; ++last) arrived(last);
    ring::arrive_full(device, tile);  // the stage that marks the end
  }

  /// Zeroes non-finite rows that this thread has copied, and marks them: not all keys see them, and 0 times infinity or
  /// NaN would be NaN. Eight lanes per row.
  template <class Device, class Ints>
  static HEADMIX_DEVICE void sanitize(Device& device, int at, Ints non_finite) {
    constexpr std::uint32_t high = 0x7F800000u, low = 0x7F80u;  // exponents of infinity
    int const thread = device.thread(), chunk = row_copy::col(thread) / 8;
    HEADMIX_UNROLL
    for (int n = 0; n < row_copy::count; ++n) {
      int const r = row_copy::row(thread, n);
      bool found = false;
      HEADMIX_UNROLL
      for (int i = 0; i < panels; ++i) {
        words<4> const eight = device.load16(device.template shared<bfloat16>(at + i * row_panel_bytes) +
                                             row_copy::layout::offset(r, chunk));
        HEADMIX_UNROLL
        for (std::uint32_t const both : eight.word) found = found || (both & high) == high || (both & low) == low;
      }
      bool const is_non_finite = (device.ballot(found) >> (device.lane() / 8 * 8) & 0xFFu) != 0;
      if (is_non_finite) {
        HEADMIX_UNROLL
        for (int i = 0; i < panels; ++i) {
          device.store16(
              device.template shared<bfloat16>(at + i * row_panel_bytes) + row_copy::layout::offset(r, chunk),
              words<4>{});
        }
      }
      if (chunk == 0) non_finite[r] = is_non_finite ? 1 : 0;
    }
  }

  /// The consumers: a warpgroup has 64 keys.
  template <class Device, class State>
  HEADMIX_DEVICE void consume(Device& device, State const& block_state) const {
    constexpr int row_blocks = rows / 8, out_blocks = width / 8, steps = rows / 16, eight_rows = 8 * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const first = consumer * warpgroup_keys,
              warp_key = first + device.warp() % 4 * 16;  // of the warpgroup, and of the warp
    float score[row_blocks][4], d_score[row_blocks][4];   // transposed: a row for each key
    float d_key[out_blocks][4] = {}, d_value[out_blocks][4] = {};
    words<4> weights[steps], gradients[steps];
    matrix_descriptor const key =
        device.describe(device.template shared<bfloat16>(0) + first * panel_columns, 16, eight_rows);
    matrix_descriptor const value =
        device.describe(device.template shared<bfloat16>(key_bytes) + first * panel_columns, 16, eight_rows);
    // Products of keys or values with a tile of rows or gradients, both in shared memory; below, products with
    // the A operand in registers.
    auto const multiply = [&](float(&sums)[row_blocks][4], matrix_descriptor const& of_keys, int at) {
      matrix_descriptor const tile = device.describe(device.template shared<bfloat16>(at), 16, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < width / 16; ++k) {
        device.wgmma_k_k(sums, of_keys.after(k / 4 * key_panel_bytes + k % 4 * 32),
                         tile.after(k / 4 * row_panel_bytes + k % 4 * 32), k > 0);
      }
      device.wgmma_commit();
    };
    auto const add = [&](float(&sums)[out_blocks][4], words<4> const(&left)[steps], int at) {
      matrix_descriptor const tile = device.describe(device.template shared<bfloat16>(at), row_panel_bytes, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) {
        device.wgmma_k_mn(sums, left[k], tile.after(k * 16 * panel_row_bytes), true);
      }
      device.wgmma_commit();
    };
    // 0 if a key does not see the row, NaN if it does and the row is non-finite.
    auto const mask_sanitized_rows = [&](float(&sums)[row_blocks][4], int stage) {
      auto const row_ranges = row_ranges_of(device, stage), non_finite = non_finite_rows(device, stage);
      int const s = block_state.first_key() + warp_key + lane / 4;
      HEADMIX_UNROLL
      for (int j = 0; j < row_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          int const r = 8 * j + lane % 4 * 2 + e;
          row_visible_range const row = load_visible_range(row_ranges, r);
          bool const is_non_finite = non_finite[r] + non_finite[rows + r] != 0;
          HEADMIX_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& w = sums[j][2 * half + e];
            w = !row.template sees<Mask>(s + 8 * half) ? 0.f : is_non_finite ? not_a_number<float> : w;
          }
        }
      }
    };

    device.mbarrier_wait(keys_full(device), 0);
    HEADMIX_NO_UNROLL
    for (int tile = 0;; ++tile) {
      int const stage = ring::stage_of(tile);
      ring::wait_full(device, tile);
      int const state = *state_of(device, stage);
      if (state == end) break;
      auto const shift = statistics_of(device, stage), delta = shift + rows;
      device.wgmma_fence(score, d_score);
      multiply(score, key, rows_at(stage));
      multiply(d_score, value, gradients_at(stage));
      float of_row[row_blocks][2];  // read during the products
      HEADMIX_UNROLL
      for (int j = 0; j < row_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) of_row[j][e] = shift[8 * j + lane % 4 * 2 + e];
      }
      device.template wgmma_wait<1>(score);
      HEADMIX_UNROLL
      for (int j = 0; j < row_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          HEADMIX_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& s = score[j][2 * half + e];
            s = device.exp2(s * scale - of_row[j][e]);
          }
        }
      }
      if (state == partial) mask_sanitized_rows(score, stage);
      device.template wgmma_wait<0>(d_score);
      HEADMIX_UNROLL
      for (int j = 0; j < row_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          float const row_delta = delta[8 * j + lane % 4 * 2 + e];
          HEADMIX_UNROLL
          for (int half = 0; half < 2; ++half) {
            float& d = d_score[j][2 * half + e];
            d = score[j][2 * half + e] * (d - row_delta);
          }
        }
      }
      if (state == partial) mask_sanitized_rows(d_score, stage);
      // All A fragments before the first MMA: there are no registers for two more accumulators.
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) {
        weights[k] = pack_a_fragment(score[2 * k], score[2 * k + 1]);
        gradients[k] = pack_a_fragment(d_score[2 * k], d_score[2 * k + 1]);
      }
      device.wgmma_fence(d_key, d_value, weights, gradients);
      add(d_value, weights, gradients_at(stage));
      add(d_key, gradients, rows_at(stage));
      device.template wgmma_wait<0>(d_key, d_value, weights, gradients);
      ring::arrive_empty(device, tile);
    }

    HEADMIX_UNROLL
    for (int j = 0; j < out_blocks; ++j) {
      HEADMIX_UNROLL
      for (int e = 0; e < 4; ++e) d_key[j][e] *= last_scale;
    }
    small_keys const block_keys = block_state.keys();
    if (parts.count > 1) {
      auto const store_gradient = [&](float const(&sums)[out_blocks][4], bool values) {
        float* const to = parts.of(block_state.part(), values);
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          int const s = block_state.first_key() + warp_key + 8 * half + lane / 4;
          if (s >= block_keys.count) continue;
          float* const row = to + (block_keys.begin + s) * parts.cols + block_keys.col + lane % 4 * 2;
          HEADMIX_UNROLL
          for (int j = 0; j < out_blocks; ++j) {
            device.store(reinterpret_cast<float_pair*>(row + 8 * j),
                         float_pair{sums[j][2 * half], sums[j][2 * half + 1]});
          }
        }
      };
      store_gradient(d_key, false);
      store_gradient(d_value, true);
      return;
    }
    // Results are staged in the memory of keys and values, which the products of all four warps have read.
    device.template sync_named<warpgroup_threads>(warpgroup_barrier + 1 + consumer);
    auto const store_gradient = [&](float const(&sums)[out_blocks][4], int at, view<bfloat16> const& to) {
      if (to.data == nullptr) return;
      store_panel_accumulators<keys>(device, at, sums, warp_key);
      for_each_panel_chunk<keys, width>(device, at, warp_key, [&](int, int s, int col, words<4> const& values) {
        bfloat16* const row = block_keys.of(to, block_state.first_key() + s);
        if (row) device.store16(row + col, values);
      });
    };
    store_gradient(d_key, 0, p.d_k);
    store_gradient(d_value, key_bytes, p.d_v);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
