#pragma once
// SPDX-License-Identifier: MIT
// d_q of attention on tensor cores.

#include "headmix/backend/cuda/kernel/attention/statistics.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// d_q in bfloat16 on tensor cores: 4 warps of 16 `m` rows each, `keys` keys at a time. With two `groups` of warps,
/// each group has all rows and half of the keys, and their sums are added at the end. Rows are aligned; the list
/// satisfies is_small.
template <AttentionMask Mask, class Map, int width, int m, int keys, int groups>
struct attention_query_gradient_tensor {
  static_assert(groups == 1 || groups == 2, "headmix: a block has one or two groups of queries");
  static constexpr int warps = 4 * groups, threads = 32 * warps, group_keys = keys / groups;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * m * 4;
  static constexpr int query_bytes = rows * width * 2, key_bytes = keys * width * 2;
  static constexpr int stages_at = 2 * query_bytes;  // keys and values, two of each
  static constexpr int row_ranges_at = stages_at + 4 * key_bytes;
  static constexpr int row_offsets_at = row_ranges_at + 3 * rows * 4;
  static constexpr int non_finite_at = row_offsets_at + 2 * rows * 4;
  static constexpr int shared_bytes = non_finite_at + keys * 4;

  attention_backward<bfloat16, Map> p;
  attention_statistics<float> statistics;
  attention_tiles tiles;
  row_divisors divisors;
  float scale, last_scale;

  [[nodiscard]] Index blocks() const { return tiles.count(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (p.dropout.on()) return;  // left to the plain kernel
    attention_extents const& x = p.extents;
    attention_tile const block_tile = tiles(device, device.block());
    small_row_list const list(x, block_tile.sequence, block_tile.list, divisors);
    if (block_tile.first >= list.length()) return;
    small_keys const all_keys(x, block_tile, divisors, width);
    int const left = static_cast<int>(block_tile.rows_of(list.length()));
    int const thread = device.thread(), lane = device.lane(), warp_row = device.warp() % 4 * (16 * m);
    int const group_key = device.warp() / 4 * group_keys;  // within a step

    auto const queries = device.template shared<bfloat16>(0), d_outs = queries + rows * width;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    auto const numbers = device.template shared<int>(row_offsets_at);
    auto const non_finite = device.template shared<int>(non_finite_at);
    shared_row_offsets<2, std::remove_cv_t<decltype(numbers)>> const row_offsets{numbers};
    compute_row_offsets<Mask, rows, width, threads>(device, list, static_cast<int>(block_tile.first), left, divisors,
                                                    all_keys.count, row_offsets, row_ranges);
    device.sync();
    using row_copy = tile_copy<rows, width, threads>;
    row_copy::start(device, queries, thread, width, [&](int, int i) { return row_offsets.of(p.q, i); });
    row_copy::start(device, d_outs, thread, width, [&](int, int i) { return row_offsets.of(p.d_o, i); });
    float shift[m][2], delta[m][2];
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const r = warp_row + 16 * i + 8 * half + lane / 4, row = row_offsets.row(r),
                  head = row_offsets.col(r) / width;
        shift[i][half] = row >= 0 ? device.load(statistics.shift(row, head)) : 0.f;
        delta[i][half] = row >= 0 ? device.load(statistics.delta(row, head)) : 0.f;
      }
    }
    tile_visible_range const visible_range = visible_range_of_rows<Mask>(device, row_ranges, left < rows ? left : rows);

    auto const start = [&](int first, int stage) {
      using copy = tile_copy<keys, width, threads>;
      auto const to = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      copy::start(device, to, thread, width, [&](int, int s) { return all_keys.of(p.k, first + s); });
      copy::start(device, to + keys * width, thread, width, [&](int, int s) { return all_keys.of(p.v, first + s); });
    };

    auto const head_of = [&](int i) {
      return list.slots ? static_cast<int>(block_tile.list) : row_offsets.col(i) / width;
    };
    float const unit = Map::identity ? scale : 1.f;  // converts scores in registers to the unit of exp2
    constexpr int key_blocks = group_keys / 8, out_blocks = width / 8;
    float out[m][out_blocks][4] = {};

    int const begin = visible_range.begin / keys * keys;
    if (begin < visible_range.end) start(begin, 0);
    device.cp_async_commit();
    int stage = 0;
    for (int first = begin; first < visible_range.end; first += keys) {
      device.template cp_async_wait<0>();
      device.sync();  // this stage has arrived, and all threads have read the other one
      if (first + keys < visible_range.end) start(first + keys, stage ^ 1);
      device.cp_async_commit();
      auto const key = device.template shared<bfloat16>(stages_at + stage * 2 * key_bytes);
      auto const value = key + keys * width;
      stage ^= 1;
      bool const all_visible = visible_range.covers(first, first + keys);
      if (!all_visible) {
        sanitize_rows<keys, width, threads>(device, key, non_finite);
        device.sync();
      }

      float score[m][key_blocks][4] = {}, d_score[m][key_blocks][4] = {};
      float slope[m][key_blocks][4] = {};
      multiply_transposed<width>(device, score, queries, warp_row, key, group_key);
      map_scores(p.scores, score, scale, row_ranges, head_of, warp_row, first + group_key, lane, slope);
      if (!all_visible) apply_mask<Mask>(score, row_ranges, warp_row, first + group_key, lane);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) {
            float const probability = device.exp2(score[i][j][e] * unit - shift[i][e / 2]);
            score[i][j][e] = through_map<Map>(probability, probability, slope[i][j][e]);
          }
        }
      }
      multiply_transposed<width>(device, d_score, d_outs, warp_row, value, group_key);
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < key_blocks; ++j) {
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) d_score[i][j][e] = score[i][j][e] * (d_score[i][j][e] - delta[i][e / 2]);
        }
      }
      if (!all_visible)
        mask_sanitized_keys<Mask>(d_score, row_ranges, non_finite + group_key, warp_row, first + group_key, lane);
      multiply_accumulators<width>(device, out, d_score, key, group_key);
    }

    device.template cp_async_wait<0>();
    device.sync();
    if constexpr (groups == 2) {
      static_assert(rows * width * 4 <= 4 * key_bytes, "headmix: the result does not fit where keys were");
      auto const others = device.template shared<float>(stages_at) + (device.warp() % 4 * (16 * m) * width + lane * 4);
      auto const each = [&](auto const& f) {
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) {
          HEADMIX_UNROLL
          for (int j = 0; j < out_blocks; ++j) f(out[i][j], others + (i * out_blocks + j) * 128);
        }
      };
      if (device.warp() >= 4) {
        each([&](float(&sum)[4], auto at) {
          words<4> bits;
          HEADMIX_UNROLL
          for (int e = 0; e < 4; ++e) bits.word[e] = __builtin_bit_cast(std::uint32_t, sum[e]);
          device.store16(at, bits);
        });
      }
      device.sync();
      if (device.warp() >= 4) return;
      each([&](float(&sum)[4], auto at) {
        words<4> const other = device.load16(at);
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) sum[e] += __builtin_bit_cast(float, other.word[e]);
      });
    }
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < out_blocks; ++j) {
        HEADMIX_UNROLL
        for (int e = 0; e < 4; ++e) out[i][j][e] *= last_scale;
      }
    }
    store_accumulators<width>(device.template shared<std::uint32_t>(0), out, lane, warp_row, 0);
    device.sync_warp();
    store_tile_rows<16 * m, width>(device, queries, warp_row, [&](int i) { return row_offsets.of(p.d_q, i); });
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
