#pragma once
// SPDX-License-Identifier: MIT
// Attention over row lists with an online softmax (Milakov and Gimelshein 2018, Dao et al. 2022). A block has a tile of
// a row list and loops over the keys that its rows see; no array of queries x keys is stored.

#include <cmath>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Plain attention kernel: any type, strides and head width, with dropout.
template <AttentionMask Mask, class T, class Map>
struct attention_plain {
  using wide = accumulator_t<T>;
  using tile = plain_tile;
  static constexpr int columns = plain_columns<wide>, columns_per_thread = columns / 8;
  static constexpr int threads = tile::threads;
  static constexpr bool cooperative = true;
  static constexpr int wide_bytes = static_cast<int>(sizeof(wide));
  static constexpr int small_bytes = tile::rows * tile::pitch * wide_bytes;
  static constexpr int values_at = 3 * small_bytes;
  static constexpr int row_offsets_at = values_at + tile::rows * columns * wide_bytes;
  static constexpr int row_ranges_at = row_offsets_at + 2 * tile::rows * static_cast<int>(sizeof(Index));
  static constexpr int shared_bytes = row_ranges_at + 3 * tile::rows * 4;

  attention_forward<T, Map> p;
  attention_gated<T> gated;
  attention_tiles tiles;
  wide scale;
  bool only_dropout;  ///< true: return at once unless dropout is on (another kernel has done the rest)

  [[nodiscard]] Index blocks() const { return tiles.count() * blocks_for(p.extents.head_dim, columns); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    bool const drops = p.dropout.on();
    if (only_dropout && !drops) return;
    attention_extents const& x = p.extents;
    Index const column_tiles = blocks_for(x.head_dim, columns);
    Index const col0 = device.block() % column_tiles * columns;
    Index const width = x.head_dim - col0 < columns ? x.head_dim - col0 : columns;
    attention_tile const block_tile = tiles(device, device.block() / column_tiles);
    Index const length = x.list_length(block_tile.sequence, block_tile.list);
    if (block_tile.first >= length) return;

    auto const left = device.template shared<wide>(0), right = device.template shared<wide>(small_bytes);
    auto const weights = device.template shared<wide>(2 * small_bytes);
    auto const values = device.template shared<wide>(values_at);
    auto const rows = device.template shared<Index>(row_offsets_at);
    auto const cols = rows + tile::rows;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    plain_compute_rows<Mask>(device, x, block_tile, rows, cols, row_ranges);
    device.sync();
    plain_rows<T, std::remove_cv_t<decltype(rows)>> const queries{p.q.data, rows, cols, p.q.row_stride, p.q.col_stride};
    Index const left_rows = block_tile.rows_of(length);
    tile_visible_range const visible_range = visible_range_of_rows<Mask>(
        device, row_ranges, left_rows < tile::rows ? static_cast<int>(left_rows) : tile::rows);
    constexpr wide masked = minus_infinity<wide>;
    int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
    wide row_max[2] = {masked, masked}, row_sum[2] = {}, out[2][columns_per_thread] = {};

    for (int first = visible_range.begin / tile::rows * tile::rows; first < visible_range.end; first += tile::rows) {
      wide score[2][4];
      plain_products(device, score, left, right, queries,
                     plain_keys_of(x, p.k, block_tile.sequence, block_tile.kv_head, first), x.head_dim);
      plain_softmax_step<Mask>(device, x, p.scores, scale, block_tile.list, row_ranges, cols, first, score, row_max,
                               row_sum, out);
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) {
        if (!drops || rows[i0 + i] < 0) continue;
        wide factor[4];
        dropout_factors<wide>(p.dropout, x, rows[i0 + i], cols[i0 + i]).four(first + j0, factor);
        HEADMIX_UNROLL
        for (int j = 0; j < 4; ++j) score[i][j] *= factor[j];
      }
      plain_store_scores(device, weights, score);
      plain_stage<wide, columns, columns>(
          device, values, plain_keys_of(x, p.v, block_tile.sequence, block_tile.kv_head, first), col0, col0 + width);
      device.sync();
      plain_add_values<Mask>(device, out, weights, values, width, visible_range, row_ranges, first);
      device.sync();
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      HEADMIX_UNROLL
      for (int step = 1; step < 8; step *= 2) row_sum[i] += device.shuffle_xor(row_sum[i], step);
      Index const row = rows[i0 + i], col = cols[i0 + i];
      if (row < 0) continue;
      Index const head = col / x.head_dim;
      wide const factor = row_sum[i] == 0 ? wide(0) : 1 / row_sum[i];
      wide const weight = gated.gate.data ? device.load(&gated.gate(row, head)) : wide(0);
      HEADMIX_UNROLL
      for (int j = 0; j < columns_per_thread; ++j) {
        Index const c = device.thread() % 8 + 8 * j;
        if (c >= width) continue;
        T const value = row_sum[i] == 0 ? T(0) : static_cast<T>(out[i][j] * factor);
        if (p.o.data) device.store(&p.o(row, col + col0 + c), value);
        if (gated.gate.data) {
          device.store(&gated.o(row, col + col0 + c), static_cast<T>(weight * static_cast<wide>(value)));
        }
      }
      if (p.lse.data && col0 == 0 && device.thread() % 8 == 0) {
        device.store(&p.lse(row, head), log_of_sum(row_max[i], row_sum[i]));
      }
    }
  }
};

/// Tensor-core attention kernel, bfloat16, mma.sync: 4 warps of 16 `m` rows each, `keys` keys at a time, `stages` key
/// tiles in shared memory. Rows are aligned; the list satisfies is_small.
template <AttentionMask Mask, class Map, int width, int m, int keys, int stages>
struct attention_tensor {
  static constexpr int warps = 4, threads = 32 * warps;
  static constexpr bool cooperative = true;
  static constexpr int rows = 16 * m * warps;
  static constexpr int query_bytes = rows * width * 2, key_bytes = keys * width * 2;
  static constexpr int stages_at = query_bytes;  // keys and values of each stage
  static constexpr int row_ranges_at = stages_at + stages * 2 * key_bytes;
  static constexpr int row_offsets_at = row_ranges_at + 3 * rows * 4;
  static constexpr int non_finite_at = row_offsets_at + 2 * rows * 4;
  static constexpr int shared_bytes = non_finite_at + keys * 4;

  attention_forward<bfloat16, Map> p;
  attention_gated<bfloat16> gated;
  attention_tiles tiles;
  row_divisors divisors;
  float scale;

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
    int const thread = device.thread(), lane = device.lane(), warp_row = device.warp() * (16 * m);

    auto const queries = device.template shared<bfloat16>(0);
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    auto const numbers = device.template shared<int>(row_offsets_at);
    auto const non_finite = device.template shared<int>(non_finite_at);
    shared_row_offsets<2, std::remove_cv_t<decltype(numbers)>> const row_offsets{numbers};
    compute_row_offsets<Mask, rows, width, threads>(device, list, static_cast<int>(block_tile.first), left, divisors,
                                                    all_keys.count, row_offsets, row_ranges);
    device.sync();
    tile_copy<rows, width, threads>::start(device, queries, thread, width,
                                           [&](int, int i) { return row_offsets.of(p.q, i); });
    tile_visible_range const visible_range = visible_range_of_rows<Mask>(device, row_ranges, left < rows ? left : rows);

    auto const tile_of = [&](int stage, bool values) {
      return device.template shared<bfloat16>(stages_at + (2 * stage + values) * key_bytes);
    };
    auto const start = [&](view<bfloat16 const> const& from, int first, int stage, bool values) {
      if (first < visible_range.end) {
        tile_copy<keys, width, threads>::start(device, tile_of(stage, values), thread, width,
                                               [&](int, int s) { return all_keys.of(from, first + s); });
      }
      device.cp_async_commit();
    };

    auto const head_of = [&](int i) {
      return list.slots ? static_cast<int>(block_tile.list) : row_offsets.col(i) / width;
    };
    float const unit = Map::identity ? scale : 1.f;  // converts scores in registers to the unit of exp2
    constexpr float masked = minus_infinity<float>;
    constexpr int key_blocks = keys / 8, out_blocks = width / 8;
    float row_max[m][2], row_sum[m][2] = {}, out[m][out_blocks][4] = {};
    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) row_max[i][0] = row_max[i][1] = masked;

    int const first_visible = visible_range.begin < visible_range.end ? visible_range.begin : visible_range.end;
    int const begin = first_visible / keys * keys;  // if no row sees a key, the range begins at the largest number
    HEADMIX_UNROLL
    for (int i = 0; i < stages; ++i) {
      start(p.k, begin + i * keys, i, false);
      if (i + 1 < stages) start(p.v, begin + i * keys, i, true);
    }
    int stage = 0;
    for (int first = begin; first < visible_range.end; first += keys) {
      device.template cp_async_wait<2 * (stages - 1)>();
      device.sync();  // these keys have arrived, and all threads have read the last values
      start(p.v, first + (stages - 1) * keys, stage == 0 ? stages - 1 : stage - 1, true);
      auto const key = tile_of(stage, false), value = tile_of(stage, true);
      bool const all_visible = visible_range.covers(first, first + keys);

      float score[m][key_blocks][4] = {};
      multiply_transposed<width>(device, score, queries, warp_row, key, 0);
      map_scores(p.scores, score, scale, row_ranges, head_of, warp_row, first, lane);
      if (!all_visible) apply_mask<Mask>(score, row_ranges, warp_row, first, lane);

      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          float new_max = row_max[i][half];
          HEADMIX_UNROLL
          for (int j = 0; j < key_blocks; ++j) {
            HEADMIX_UNROLL
            for (int e = 0; e < 2; ++e) {
              float const s = score[i][j][2 * half + e];
              new_max = std::fmax(s, new_max);  // ignores NaN
            }
          }
          HEADMIX_UNROLL
          for (int step = 1; step < 4; step *= 2) {
            new_max = std::fmax(device.shuffle_xor(new_max, step), new_max);
          }
          float const shift = new_max == masked ? 0.f : new_max * unit;
          float const rescale = device.exp2(row_max[i][half] * unit - shift);
          row_max[i][half] = new_max;
          float sum = 0;
          HEADMIX_UNROLL
          for (int j = 0; j < key_blocks; ++j) {
            HEADMIX_UNROLL
            for (int e = 0; e < 2; ++e) {
              float& s = score[i][j][2 * half + e];
              s = device.exp2(s * unit - shift);
              sum += s;
            }
          }
          row_sum[i][half] = row_sum[i][half] * rescale + sum;
          HEADMIX_UNROLL
          for (int j = 0; j < out_blocks; ++j) {
            out[i][j][2 * half] *= rescale;
            out[i][j][2 * half + 1] *= rescale;
          }
        }
      }

      device.template cp_async_wait<2 * (stages - 1)>();
      device.sync();  // these values have arrived, and all threads have read the keys
      start(p.k, first + stages * keys, stage, false);
      stage = stage + 1 == stages ? 0 : stage + 1;
      if (!all_visible) {
        sanitize_rows<keys, width, threads>(device, value, non_finite);
        device.sync();
        mask_sanitized_keys<Mask>(score, row_ranges, non_finite, warp_row, first, lane);
      }
      multiply_accumulators<width>(device, out, score, value, 0);
    }

    HEADMIX_UNROLL
    for (int i = 0; i < m; ++i) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        float sum = row_sum[i][half];
        sum += device.shuffle_xor(sum, 1);
        sum += device.shuffle_xor(sum, 2);
        float const factor = sum == 0 ? 0.f : 1 / sum;
        int const r = warp_row + 16 * i + 8 * half + lane / 4;
        Index const row = row_offsets.row(r);
        if (p.lse.data && row >= 0 && lane % 4 == 0) {
          device.store(&p.lse(row, row_offsets.col(r) / width), log_of_sum(row_max[i][half] * unit, sum));
        }
        HEADMIX_UNROLL
        for (int j = 0; j < out_blocks; ++j) {
          for (int e = 0; e < 2; ++e) {
            float& o = out[i][j][2 * half + e];
            o = sum == 0 ? 0.f : o * factor;
          }
        }
      }
    }
    device.template cp_async_wait<0>();
    device.sync();  // the queries have arrived even if no key was seen
    store_accumulators<width>(device.template shared<std::uint32_t>(0), out, lane, warp_row, 0);
    device.sync_warp();
    if (p.o.data)
      store_tile_rows<16 * m, width>(device, queries, warp_row, [&](int i) { return row_offsets.of(p.o, i); });
    if (gated.gate.data) {
      store_tile_rows<16 * m, width>(
          device, queries, warp_row, [&](int i) { return row_offsets.of(gated.o, i); },
          [&](int i, words<4>& values) {
            float const weight = device.load(&gated.gate(row_offsets.row(i), row_offsets.col(i) / width));
            HEADMIX_UNROLL
            for (std::uint32_t& both : values.word) both = pack(weight * low_of(both), weight * high_of(both));
          });
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
