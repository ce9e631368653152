#pragma once
// SPDX-License-Identifier: MIT
// d_q of attention with warpgroup MMAs. A block has 128 rows of a list. The first of its three warpgroups loads keys
// and values, 128 at a time; the other two have 64 rows each, recompute their probabilities and multiply the score
// gradients by the keys. The MMAs of one warpgroup overlap the exponentials of the other.

#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/ring.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// bfloat16, heads of 64 or 128 columns, no score map, no dropout. Rows are aligned, the list satisfies is_small, and
/// there is at least one key.
template <AttentionMask Mask, class Map, int width, class TensorMap>
struct attention_query_gradient_warpgroups {
  static_assert(Map::identity && (width == 64 || width == 128),
                "headmix: warpgroups compute attention without score maps, with heads of 64 or 128");
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int query_bytes = 128 * width * 2;  ///< also of d_o, which follows q
  using block = attention_row_block<Mask, width, sanitized_tiles::keys, 2 * query_bytes>;
  using ring = typename block::ring;
  static constexpr int threads = block::threads, rows = block::rows, keys = block::keys,
                       warpgroup_rows = block::warpgroup_rows;
  static constexpr int statistics_at = block::end;  ///< shift, then delta; registers are scarce
  static constexpr int producer_registers = tuning::sm90a::query_gradient_registers.producer;
  static constexpr int consumer_registers = tuning::sm90a::query_gradient_registers.consumer;
  static constexpr int shared_bytes = statistics_at + 2 * rows * 4;
  static constexpr int warpgroup_barrier = 1;  ///< named barriers 1 and 2: of a consumer

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors divisors;
  float scale, last_scale;
  TensorMap map_of_k, map_of_v;  ///< for tiles of `keys` rows

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    block::template run<producer_registers, consumer_registers>(
        device, p.extents, tiles, divisors, map_of_k, map_of_v,
        [&](tile_visible_range const& visible_range, int begin, int count, int) {
          consume(device, visible_range, begin, count);
        });
  }

 private:
  /// The consumers: a warpgroup has 64 rows.
  template <class Device>
  HEADMIX_DEVICE void consume(Device& device, tile_visible_range const& visible_range, int begin, int count) const {
    auto const row_ranges = block::row_ranges(device);
    auto const row_offsets = block::row_offsets(device);
    typename ring::template barriers<Device> const barriers(device);
    constexpr int key_blocks = keys / 8, out_blocks = width / 8, steps = keys / 16, eight_rows = 8 * panel_row_bytes;
    constexpr int query_panel_bytes = rows * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const first_row = consumer * warpgroup_rows,
              warp_row = first_row + device.warp() % 4 * 16;  // of the warpgroup, and of the warp
    auto const queries = device.template shared<bfloat16>(0), d_outs = device.template shared<bfloat16>(query_bytes);

    gather_panels<rows, warpgroup_rows, width>(device, queries, first_row,
                                               [&](int r) { return row_offsets.of(p.q, r); });
    gather_panels<rows, warpgroup_rows, width>(device, d_outs, first_row,
                                               [&](int r) { return row_offsets.of(p.d_o, r); });
    device.cp_async_commit();
    auto const shift = device.template shared<float>(statistics_at), delta = shift + rows;
    if (int const i = device.thread() % warpgroup_threads; i < warpgroup_rows) {
      int const r = first_row + i, row = row_offsets.row(r), head = row_offsets.col(r) / width;
      shift[r] = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
      delta[r] = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
    }
    device.template cp_async_wait<0>();
    device.fence_proxy_async();
    device.template sync_named<warpgroup_threads>(warpgroup_barrier + consumer);

    float score[1][key_blocks][4], d_score[1][key_blocks][4], out[1][out_blocks][4] = {};
    words<4> gradients[steps];
    int sanitized_parity = 0;  // bit i: the parity of the next wait for sanitized keys in stage i
    matrix_descriptor const query = device.describe(queries + first_row * panel_columns, 16, eight_rows);
    matrix_descriptor const d_out = device.describe(d_outs + first_row * panel_columns, 16, eight_rows);
    // Products of the rows with a tile of keys or values.
    auto const multiply = [&](float(&sums)[key_blocks][4], matrix_descriptor const& of_rows, int at) {
      matrix_descriptor const tile = device.describe(device.template shared<bfloat16>(at), 16, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < width / 16; ++k) {
        device.wgmma_k_k(sums, of_rows.after(k / 4 * query_panel_bytes + k % 4 * 32),
                         tile.after(k / 4 * ring::panel_bytes + k % 4 * 32), k > 0);
      }
      device.wgmma_commit();
    };
    auto const release = [&](auto const& empty) { arrive_by_warp(device, empty); };

    HEADMIX_NO_UNROLL
    for (int tile = 0; tile < count; ++tile) {
      int const stage = ring::stage_of(tile), first = begin + tile * keys;
      bool const all_visible = visible_range.covers(first, first + keys);
      device.mbarrier_wait(barriers.keys_full(stage), ring::parity_of(tile));
      if (!all_visible) {
        device.mbarrier_wait(barriers.sanitized(stage), sanitized_parity >> stage & 1);
        sanitized_parity ^= 1 << stage;
      }
      device.mbarrier_wait(barriers.values_full(stage), ring::parity_of(tile));
      device.wgmma_fence(score[0], d_score[0]);
      multiply(score[0], query, ring::keys_at(stage));
      multiply(d_score[0], d_out, ring::values_at(stage));
      device.template wgmma_wait<1>(score[0]);
      if (!all_visible) apply_mask<Mask>(score, row_ranges, warp_row, first, lane);
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const row_shift = shift[warp_row + 8 * half + lane / 4];
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 2 * half; e < 2 * half + 2; ++e)
            score[0][j][e] = device.exp2(score[0][j][e] * scale - row_shift);
        }
      }
      device.template wgmma_wait<0>(d_score[0]);
      release(barriers.values_empty(stage));
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const row_delta = delta[warp_row + 8 * half + lane / 4];
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 2 * half; e < 2 * half + 2; ++e)
            d_score[0][j][e] = score[0][j][e] * (d_score[0][j][e] - row_delta);
        }
      }
      if (!all_visible)
        mask_sanitized_keys<Mask>(d_score, row_ranges, ring::non_finite_rows(device, stage), warp_row, first, lane);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) gradients[k] = pack_a_fragment(d_score[0][2 * k], d_score[0][2 * k + 1]);
      device.wgmma_fence(out[0], gradients);
      matrix_descriptor const key =
          device.describe(device.template shared<bfloat16>(ring::keys_at(stage)), ring::panel_bytes, eight_rows);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) {
        device.wgmma_k_mn(out[0], gradients[k], key.after(k * 16 * panel_row_bytes), true);
      }
      device.wgmma_commit();
      device.template wgmma_wait<0>(out[0], gradients);
      release(barriers.keys_empty(stage));
    }

    // Results are staged in the memory of the queries, which the products of all four warps have read.
    device.template sync_named<warpgroup_threads>(warpgroup_barrier + consumer);
    HEADMIX_UNROLL
    for (int j = 0; j < out_blocks; ++j) {
      HEADMIX_UNROLL
      for (int e = 0; e < 4; ++e) out[0][j][e] *= last_scale;
    }
    store_panel_accumulators<rows>(device, 0, out[0], warp_row);
    for_each_panel_chunk<rows, width>(device, 0, warp_row, [&](int, int r, int col, words<4> const& values) {
      if (row_offsets.row(r) >= 0) device.store16(row_offsets.of(p.d_q, r) + col, values);
    });
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
