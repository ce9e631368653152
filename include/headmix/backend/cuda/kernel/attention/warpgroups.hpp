#pragma once
// SPDX-License-Identifier: MIT
// Attention over row lists with warpgroup MMAs (Shah et al. 2024 describe the schedule). A block has 128 rows of a list
// and three warpgroups. The first loads keys and values, 128 at a time, by TMA into a ring of stages; the other two
// have 64 rows each and alternate: the MMAs of one warpgroup overlap the exponentials of the other. The score MMAs of a
// tile and the P V MMAs of the previous tile are in flight together.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/ring.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// bfloat16, heads of 64 or 128 columns, no dropout. Rows are aligned, the list satisfies is_small, and there is at
/// least one key.
template <AttentionMask Mask, class Map, int width, class TensorMap>
struct attention_warpgroups {
  static_assert(width == 64 || width == 128, "headmix: warpgroups compute attention with heads of 64 or 128");
  static constexpr bool cooperative = true, warpgroups = true;
  using block = attention_row_block<Mask, width, sanitized_tiles::values, 128 * width * 2>;  ///< after the queries
  using ring = typename block::ring;
  static constexpr int threads = block::threads, rows = block::rows, keys = block::keys,
                       warpgroup_rows = block::warpgroup_rows;
  static constexpr int shared_bytes = block::end;
  static constexpr int producer_registers = tuning::sm90a::attention.registers.producer;
  static constexpr int consumer_registers = tuning::sm90a::attention.registers.consumer;
  static constexpr float rescale_threshold = tuning::sm90a::attention.rescale_threshold;
  static constexpr int scheduler_barrier = 1;  ///< named barriers 1 and 2: a consumer may issue MMAs
  static constexpr int warpgroup_barrier = 3;  ///< named barriers 3 and 4: of a consumer

  attention_forward<bfloat16, Map> p;
  attention_gated<bfloat16> gated;
  attention_tiles tiles;
  row_divisors divisors;
  float scale;
  TensorMap map_of_k, map_of_v;  ///< for tiles of `keys` rows

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    block::template run<producer_registers, consumer_registers>(
        device, p.extents, tiles, divisors, map_of_k, map_of_v,
        [&](tile_visible_range const& visible_range, int begin, int count, int list) {
          consume(device, visible_range, begin, count, list);
        });
  }

 private:
  /// The consumers: a warpgroup has 64 rows.
  template <class Device>
  HEADMIX_DEVICE void consume(Device& device, tile_visible_range const& visible_range, int begin, int count,
                              int list) const {
    auto const row_ranges = block::row_ranges(device);
    auto const row_offsets = block::row_offsets(device);
    typename ring::template barriers<Device> const barriers(device);
    constexpr int key_blocks = keys / 8, out_blocks = width / 8, steps = keys / 16;
    constexpr float masked = minus_infinity<float>;
    constexpr int query_panel_bytes = rows * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const first_row = consumer * warpgroup_rows,
              warp_row = first_row + device.warp() % 4 * 16;  // of the warpgroup, and of the warp
    auto const queries = device.template shared<bfloat16>(0);

    gather_panels<rows, warpgroup_rows, width>(device, queries, first_row,
                                               [&](int r) { return row_offsets.of(p.q, r); });
    device.cp_async_commit();
    device.template cp_async_wait<0>();
    device.fence_proxy_async();
    device.template sync_named<warpgroup_threads>(warpgroup_barrier + consumer);

    float row_max[2] = {masked, masked}, row_sum[2] = {}, rescale[2];
    float score[1][key_blocks][4], out[1][out_blocks][4] = {};
    words<4> weights[steps];
    int sanitized_parity = 0;  // bit i: the parity of the next wait for sanitized values in stage i

    matrix_descriptor const query = device.describe(queries + first_row * panel_columns, 16, 8 * panel_row_bytes);
    auto const multiply_keys = [&](int stage) {
      matrix_descriptor const key =
          device.describe(device.template shared<bfloat16>(ring::keys_at(stage)), 16, 8 * panel_row_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < width / 16; ++k) {
        device.wgmma_k_k(score[0], query.after(k / 4 * query_panel_bytes + k % 4 * 32),
                         key.after(k / 4 * ring::panel_bytes + k % 4 * 32), k > 0);
      }
    };
    auto const multiply_values = [&](int stage) {
      matrix_descriptor const value = device.describe(device.template shared<bfloat16>(ring::values_at(stage)),
                                                      ring::panel_bytes, 8 * panel_row_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) {
        device.wgmma_k_mn(out[0], weights[k], value.after(k * 16 * panel_row_bytes), true);
      }
    };
    auto const scheduler_sync = [&] {
      device.template sync_named<2 * warpgroup_threads>(scheduler_barrier + consumer);
    };
    auto const scheduler_arrive = [&] {
      device.template arrive_named<2 * warpgroup_threads>(scheduler_barrier + 1 - consumer);
    };
    auto const release = [&](auto const& empty) { arrive_by_warp(device, empty); };
    // Scores become exponentials; `rescale` multiplies the previous sums. While a row's maximum has not grown by more
    // than `rescale_threshold`, its sums stay relative to the older maximum: exponentials are then at most
    // 2^rescale_threshold, harmless in float and bfloat16, and if this holds for all rows of a warp no sum is rescaled.
    bool rescales = true;
    float const unit = Map::identity ? scale : 1.f;  // converts scores in registers to the unit of exp2
    auto const head_of = [&](int r) { return p.extents.heads_are_chosen() ? list : row_offsets.col(r) / width; };
    auto const softmax_step = [&](int tile) {
      int const first = begin + tile * keys;
      map_scores(p.scores, score, scale, row_ranges, head_of, warp_row, first, lane);
      if (!visible_range.covers(first, first + keys)) apply_mask<Mask>(score, row_ranges, warp_row, first, lane);
      bool grows[2];
      float new_max[2];
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float tile_max = row_max[half];
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          tile_max = std::fmax(score[0][j][2 * half], tile_max);  // ignores NaN
          tile_max = std::fmax(score[0][j][2 * half + 1], tile_max);
        }
        HEADMIX_UNROLL
        for (int step = 1; step < 4; step *= 2) tile_max = std::fmax(device.shuffle_xor(tile_max, step), tile_max);
        grows[half] = tile_max * unit > row_max[half] * unit + rescale_threshold;
        new_max[half] = grows[half] ? tile_max : row_max[half];
      }
      rescales = device.ballot(grows[0] || grows[1]) != 0;
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float const shift = new_max[half] == masked ? 0.f : new_max[half] * unit;
        rescale[half] = grows[half] ? device.exp2(row_max[half] * unit - shift) : 1.f;
        row_max[half] = new_max[half];
        float sum = 0;
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 2; ++e) {
            float& s = score[0][j][2 * half + e];
            s = device.exp2(s * unit - shift);
            sum += s;
          }
        }
        row_sum[half] = row_sum[half] * rescale[half] + sum;
      }
    };
    auto const rescale_output = [&] {
      if (!rescales) return;
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) out[0][j][e] *= rescale[e / 2];
      }
    };
    auto const pack_weights = [&](int tile) {
      int const first = begin + tile * keys, stage = ring::stage_of(tile);
      if (!visible_range.covers(first, first + keys)) {
        device.mbarrier_wait(barriers.sanitized(stage), sanitized_parity >> stage & 1);
        sanitized_parity ^= 1 << stage;
        mask_sanitized_keys<Mask>(score, row_ranges, ring::non_finite_rows(device, stage), warp_row, first, lane);
      }
      HEADMIX_UNROLL
      for (int k = 0; k < steps; ++k) weights[k] = pack_a_fragment(score[0][2 * k], score[0][2 * k + 1]);
    };

    if (count > 0) {
      if (consumer == 1) scheduler_arrive();  // the first consumer begins
      device.mbarrier_wait(barriers.keys_full(0), 0);
      scheduler_sync();
      device.wgmma_fence(score[0]);
      multiply_keys(0);
      device.wgmma_commit();
      if (consumer == 0 || count > 1) scheduler_arrive();
      device.template wgmma_wait<0>(score[0]);
      release(barriers.keys_empty(0));
      softmax_step(0);
      pack_weights(0);
      HEADMIX_NO_UNROLL
      for (int tile = 1; tile < count; ++tile) {
        int const stage = ring::stage_of(tile), before = ring::stage_of(tile - 1);
        device.mbarrier_wait(barriers.keys_full(stage), ring::parity_of(tile));
        device.mbarrier_wait(barriers.values_full(before), ring::parity_of(tile - 1));
        scheduler_sync();
        device.wgmma_fence(score[0], out[0], weights);
        multiply_keys(stage);
        device.wgmma_commit();
        multiply_values(before);
        device.wgmma_commit();
        if (consumer == 0 || tile + 1 < count) scheduler_arrive();
        device.template wgmma_wait<1>(score[0]);
        release(barriers.keys_empty(stage));
        softmax_step(tile);
        device.template wgmma_wait<0>(out[0], weights);
        release(barriers.values_empty(before));
        rescale_output();
        pack_weights(tile);
      }
      int const last = ring::stage_of(count - 1);
      device.mbarrier_wait(barriers.values_full(last), ring::parity_of(count - 1));
      device.wgmma_fence(out[0], weights);
      multiply_values(last);
      device.wgmma_commit();
      device.template wgmma_wait<0>(out[0], weights);
      release(barriers.values_empty(last));
    }

    // Targets and factors of the lane's part of the warp's rows: all are read before the first store, after which the
    // compiler would have to read them again.
    using lanes = panel_chunks<width>;
    int row[lanes::count], first_col[lanes::count];
    float weight[lanes::count] = {};
    HEADMIX_UNROLL
    for (int n = 0; n < lanes::count; ++n) {
      int const r = warp_row + lanes::row(lane, n);
      row[n] = row_offsets.row(r);
      first_col[n] = row_offsets.col(r);
      if (gated.gate.data && row[n] >= 0) weight[n] = device.load(&gated.gate(row[n], first_col[n] / width));
    }
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      float sum = row_sum[half];
      sum += device.shuffle_xor(sum, 1);
      sum += device.shuffle_xor(sum, 2);
      float const factor = sum == 0 ? 0.f : 1 / sum;
      int const r = warp_row + 8 * half + lane / 4;
      Index const of_sum = row_offsets.row(r);
      if (p.lse.data && of_sum >= 0 && lane % 4 == 0) {
        device.store(&p.lse(of_sum, row_offsets.col(r) / width), log_of_sum(row_max[half] * unit, sum));
      }
      bool const some_are_empty = device.ballot(sum == 0) != 0;
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) out[0][j][2 * half + e] *= factor;
      }
      if (!some_are_empty) continue;
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 2; ++e) {
          float& o = out[0][j][2 * half + e];
          o = sum == 0 ? 0.f : o;
        }
      }
    }
    // Results are staged in the memory of the queries, which the products of all four warps have read.
    device.template sync_named<warpgroup_threads>(warpgroup_barrier + consumer);
    store_panel_accumulators<rows>(device, 0, out[0], warp_row);
    for_each_panel_chunk<rows, width>(device, 0, warp_row, [&](int n, int, int right, words<4> values) {
      if (row[n] < 0) return;
      int const col = first_col[n] + right;
      if (p.o.data) device.store16(p.o.data + row[n] * p.o.row_stride + col, values);
      if (gated.gate.data) {
        HEADMIX_UNROLL
        for (std::uint32_t& both : values.word) both = pack(weight[n] * low_of(both), weight[n] * high_of(both));
        device.store16(gated.o.data + row[n] * gated.o.row_stride + col, values);
      }
    });
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
