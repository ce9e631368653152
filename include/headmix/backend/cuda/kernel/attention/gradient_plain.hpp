#pragma once
// SPDX-License-Identifier: MIT
// The gradient of attention for any type, strides and head width.

#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/attention/statistics.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// d_q (`of_keys` false) or d_k and d_v for any type, strides and head width, with dropout. A tile of rows owns its
/// rows and loops over keys; a tile of keys owns its keys and loops over rows.
template <AttentionMask Mask, class T, class Map, bool of_keys>
struct attention_gradient_plain {
  using wide = accumulator_t<T>;
  using tile = plain_tile;
  static constexpr int columns = plain_columns<wide>, columns_per_thread = columns / 8;
  static constexpr int threads = tile::threads;
  static constexpr bool cooperative = true;
  static constexpr int wide_bytes = static_cast<int>(sizeof(wide));
  static constexpr int small_bytes = tile::rows * tile::pitch * wide_bytes;
  static constexpr int values_at = 4 * small_bytes;
  static constexpr int statistics_at = values_at + tile::rows * columns * wide_bytes;
  static constexpr int row_offsets_at = statistics_at + 2 * tile::rows * wide_bytes;
  static constexpr int row_ranges_at = row_offsets_at + 2 * tile::rows * static_cast<int>(sizeof(Index));
  static constexpr int shared_bytes = row_ranges_at + 3 * tile::rows * 4;

  attention_backward<T, Map> p;
  attention_statistics<wide> statistics;
  attention_tiles tiles;
  wide scale;       ///< of products q k
  wide last_scale;  ///< of d_q or d_k
  bool only_dropout;

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
    Index const b = block_tile.sequence, kv = block_tile.kv_head, keys = x.keys.length(b);
    if (block_tile.first >= (of_keys ? keys : x.list_length(b, block_tile.list))) return;

    auto const left = device.template shared<wide>(0), right = device.template shared<wide>(small_bytes);
    auto const weights = device.template shared<wide>(2 * small_bytes);
    auto const d_weights = device.template shared<wide>(3 * small_bytes);
    auto const values = device.template shared<wide>(values_at);
    auto const row_statistics = device.template shared<wide>(statistics_at);
    auto const rows = device.template shared<Index>(row_offsets_at);
    auto const cols = rows + tile::rows;
    auto const row_ranges = device.template shared<int>(row_ranges_at);
    using query_rows = plain_rows<T, std::remove_cv_t<decltype(rows)>>;
    query_rows const q{p.q.data, rows, cols, p.q.row_stride, p.q.col_stride};
    query_rows const d_o{p.d_o.data, rows, cols, p.d_o.row_stride, p.d_o.col_stride};
    // Computes row offsets and visible keys. Shared memory of row offsets is free at the call.
    auto const compute_rows = [&](attention_tile const& of) {
      plain_compute_rows<Mask>(device, x, of, rows, cols, row_ranges);
      int const i = device.thread();
      if (i < tile::rows) {
        Index const row = rows[i], head = cols[i] / x.head_dim;
        row_statistics[2 * i] = row >= 0 ? device.load(statistics.shift(row, head)) : wide(0);
        row_statistics[2 * i + 1] = row >= 0 ? device.load(statistics.delta(row, head)) : wide(0);
        mask_row_without_scores(row_ranges, i, wide(row_statistics[2 * i]));
      }
      device.sync();
      Index const left_rows = of.rows_of(x.list_length(b, of.list));
      return visible_range_of_rows<Mask>(device, row_ranges,
                                         left_rows < tile::rows ? static_cast<int>(left_rows) : tile::rows);
    };
    int const i0 = device.thread() / 8 * 2, j0 = device.thread() % 8 * 4;
    wide out[2][columns_per_thread] = {}, out_v[2][columns_per_thread] = {};

    // Adds the products of the current rows and the keys from first_key on.
    auto const add_products = [&](Index list, int first_key, bool all_visible) {
      plain_keys<T> const k = plain_keys_of(x, p.k, b, kv, first_key), v = plain_keys_of(x, p.v, b, kv, first_key);
      wide score[2][4], d_score[2][4];
      if constexpr (of_keys) {
        plain_products(device, score, left, right, k, q, x.head_dim);
        device.sync();
        plain_products(device, d_score, left, right, v, d_o, x.head_dim);
      } else {
        plain_products(device, score, left, right, q, k, x.head_dim);
        device.sync();
        plain_products(device, d_score, left, right, d_o, v, x.head_dim);
      }
      // The rows of this thread, over its keys.
      constexpr int rows_per_thread = of_keys ? 4 : 2, keys_per_thread = of_keys ? 2 : 4;
      int const row0 = of_keys ? j0 : i0, s0 = first_key + (of_keys ? i0 : j0);
      HEADMIX_UNROLL
      for (int i = 0; i < rows_per_thread; ++i) {
        int const row = row0 + i;
        row_visible_range const row_range = load_visible_range(row_ranges, row);
        // The probability of a single key is exactly 1: the gradient by its score is exactly 0.
        bool const several = row_range.end - row_range.begin > 1;
        plain_scores<wide, T, Map> const score_of(p.scores, scale, row_range.position, head_of_row(x, list, cols[row]));
        wide factor[4] = {1, 1, 1, 1};
        if (drops && rows[row] >= 0) {
          dropout_factors<wide>(p.dropout, x, rows[row], cols[row]).four(s0 / 4 * 4, factor);
          if (keys_per_thread == 2 && s0 % 4 == 2) {
            factor[0] = factor[2];
            factor[1] = factor[3];
          }
        }
        HEADMIX_UNROLL
        for (int j = 0; j < keys_per_thread; ++j) {
          wide& s = score[of_keys ? j : i][of_keys ? i : j];
          wide& d = d_score[of_keys ? j : i][of_keys ? i : j];
          bool const sees = row_range.template sees<Mask>(s0 + j);
          wide slope = 1;
          wide const probability =
              sees ? exponential(device, plain_score(device, score_of, s, s0 + j, slope) - row_statistics[2 * row])
                   : wide(0);
          d = sees ? probability * (factor[j] * d - row_statistics[2 * row + 1]) : wide(0);
          if (!several && d == d) d = 0;
          d = through_map<Map>(d, probability, slope);
          s = probability * factor[j];
        }
      }
      plain_store_scores(device, d_weights, d_score);
      // One loop for fully visible and partial tiles: two loops would need too many registers.
      plain_partial_mask const mask(i0, all_visible, [&](int i, int j) {
        return load_visible_range(row_ranges, of_keys ? j : i).template sees<Mask>(first_key + (of_keys ? i : j));
      });
      if constexpr (of_keys) {
        plain_store_scores(device, weights, score);
        plain_stage<wide, columns, columns>(device, values, d_o, col0, col0 + width);
        device.sync();
        plain_accumulate(device, out_v, weights, values, width, mask);
        device.sync();
        plain_stage<wide, columns, columns>(device, values, q, col0, col0 + width);
      } else {
        plain_stage<wide, columns, columns>(device, values, k, col0, col0 + width);
      }
      device.sync();
      plain_accumulate(device, out, d_weights, values, width, mask);
      device.sync();
    };
    if constexpr (of_keys) {
      int const first_key = static_cast<int>(block_tile.first);
      Index const lists = x.lists_per_kv_head();
      for (Index list = kv * lists; list < (kv + 1) * lists; ++list) {
        Index const length = x.list_length(b, list);
        for (Index first = 0; first < length; first += tile::rows) {
          tile_visible_range const visible_range = compute_rows({b, list, kv, first});
          if (visible_range.overlaps(first_key, first_key + tile::rows)) {
            add_products(list, first_key, visible_range.covers(first_key, first_key + tile::rows));
          } else {
            device.sync();
          }
        }
      }
    } else {
      tile_visible_range const visible_range = compute_rows(block_tile);
      for (int first = visible_range.begin / tile::rows * tile::rows; first < visible_range.end; first += tile::rows) {
        add_products(block_tile.list, first, visible_range.covers(first, first + tile::rows));
      }
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      Index row = x.keys.begin(b) + block_tile.first + i0 + i, col = kv * x.head_dim;
      if constexpr (of_keys) {
        if (block_tile.first + i0 + i >= keys) continue;
      } else {
        row = rows[i0 + i];
        col = cols[i0 + i];
        if (row < 0) continue;
      }
      HEADMIX_UNROLL
      for (int j = 0; j < columns_per_thread; ++j) {
        Index const c = device.thread() % 8 + 8 * j;
        if (c >= width) continue;
        if constexpr (of_keys) {
          if (p.d_k.data) device.store(&p.d_k(row, col + col0 + c), static_cast<T>(out[i][j] * last_scale));
          if (p.d_v.data) device.store(&p.d_v(row, col + col0 + c), static_cast<T>(out_v[i][j]));
        } else {
          device.store(&p.d_q(row, col + col0 + c), static_cast<T>(out[i][j] * last_scale));
        }
      }
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
