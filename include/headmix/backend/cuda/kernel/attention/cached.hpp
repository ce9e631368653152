#pragma once
// SPDX-License-Identifier: MIT
// Attention of a decoder over a cache of keys and values, and means over the positions so far. Keys are divided into
// parts of a fixed length from position 0 on. With few rows, each part has its own block (flash-decoding, Dao et al.
// 2023), and another kernel merges the partial sums in order; with many rows, a block loops over all parts. No tensor
// cores: a step is memory-bound.

#include <cstring>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/plain_tile.hpp"
#include "headmix/backend/cuda/kernel/rows/sequence.hpp"
#include "headmix/backend/cuda/tuning.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The layout of a page: a part of rows x head_dim numbers for each key/value head, row by row.
template <class T>
[[nodiscard]] HEADMIX_DEVICE Index cached_at(attention_extents const& x, cache_pages const& pages, Index b, Index head,
                                             Index s) {
  return ((pages.page(b, s) * x.kv_heads + head) * pages.rows + s % pages.rows) * x.head_dim;
}

/// Appends keys and values of new tokens to the cache. A thread has a column of a token.
template <class T>
struct append_to_cache {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  attention_extents x;
  view<T const> k, v;
  attention_cache<T> cache;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const e = device.block() * threads + device.thread();
    if (e >= k.rows * k.cols) return;
    Index const row = e / k.cols, col = e % k.cols, b = sequence_of(x.keys, row);
    Index const s = x.keys.first_position(b) + row - x.keys.begin(b);
    Index const to = cached_at<T>(x, cache.pages, b, col / x.head_dim, s) + col % x.head_dim;
    device.store(cache.keys.data + to, device.load(&k(row, col)));
    device.store(cache.values.data + to, device.load(&v(row, col)));
  }
};

/// Sums of a tile of rows over parts of the keys: of one part to `sums`, or of all parts and o.
template <AttentionMask Mask, class T, class Map>
struct cached_attention_part {
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
  attention_cache<T> cache;
  attention_tiles tiles;
  wide scale;
  Index parts;         ///< parts with a block each; 1: a block loops over all parts
  wide* sums;          ///< [rows of all lists, parts, head_dim + 2]; the last two are row maximum and row sum
  Index* row_offsets;  ///< [rows of all lists, 2]: row and first column of o

  [[nodiscard]] Index blocks() const { return tiles.count() * blocks_for(p.extents.head_dim, columns) * parts; }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    attention_extents const& x = p.extents;
    Index const column_tiles = blocks_for(x.head_dim, columns), part = device.block() % parts;
    Index const col0 = device.block() / parts % column_tiles * columns;
    Index const width = x.head_dim - col0 < columns ? x.head_dim - col0 : columns;
    attention_tile const block_tile = tiles(device, device.block() / (parts * column_tiles));
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
    tile_visible_range const visible = visible_range_of_rows<Mask>(
        device, row_ranges, left_rows < tile::rows ? static_cast<int>(left_rows) : tile::rows);
    constexpr wide masked = minus_infinity<wide>;
    constexpr int part_keys = static_cast<int>(tuning::decoding.part_keys);
    int const i0 = device.thread() / 8 * 2;
    wide row_max[2] = {masked, masked}, row_sum[2] = {}, out[2][columns_per_thread] = {};

    int const begin = parts > 1 ? static_cast<int>(part) * part_keys : visible.begin / part_keys * part_keys;
    int const end = parts > 1 ? begin + part_keys : visible.end;
    for (int from = begin; from < end && from < visible.end; from += part_keys) {
      wide part_max[2] = {masked, masked}, part_sum[2] = {}, part_out[2][columns_per_thread] = {};
      for (int first = from; first < from + part_keys && first < visible.end; first += tile::rows) {
        if (first + tile::rows <= visible.begin) continue;
        Index const at = cached_at<T>(x, cache.pages, block_tile.sequence, block_tile.kv_head, first);
        Index const keys = visible.end - first;
        plain_keys<T> const k{cache.keys.data + at, keys, x.head_dim, 1},
            v{cache.values.data + at, keys, x.head_dim, 1};
        wide score[2][4];
        plain_products(device, score, left, right, queries, k, x.head_dim);
        plain_softmax_step<Mask>(device, x, p.scores, scale, block_tile.list, row_ranges, cols, first, score, part_max,
                                 part_sum, part_out);
        plain_store_scores(device, weights, score);
        plain_stage<wide, columns, columns>(device, values, v, col0, col0 + width);
        device.sync();
        plain_add_values<Mask>(device, part_out, weights, values, width, visible, row_ranges, first);
        device.sync();
      }
      HEADMIX_UNROLL
      for (int i = 0; i < 2; ++i) {
        HEADMIX_UNROLL
        for (int step = 1; step < 8; step *= 2) part_sum[i] += device.shuffle_xor(part_sum[i], step);
        if (part_sum[i] == 0) continue;
        wide const new_max = part_max[i] > row_max[i] ? part_max[i] : row_max[i];
        wide const rescale = row_max[i] == masked ? wide(0) : exponential(device, row_max[i] - new_max),
                   part_rescale = exponential(device, part_max[i] - new_max);
        row_max[i] = new_max;
        row_sum[i] = row_sum[i] * rescale + part_sum[i] * part_rescale;
        HEADMIX_UNROLL
        for (int j = 0; j < columns_per_thread; ++j) {
          out[i][j] = out[i][j] * rescale + part_out[i][j] * part_rescale;
        }
      }
    }

    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      Index const row = rows[i0 + i], col = cols[i0 + i];
      if (row < 0) continue;
      bool const first_of_row = col0 == 0 && device.thread() % 8 == 0;
      wide const factor = row_sum[i] == 0 ? wide(0) : 1 / row_sum[i];
      Index const list_row =
          parts > 1 ? x.list_begin(block_tile.sequence, block_tile.list) + block_tile.first + i0 + i : 0;
      wide* const to = sums + (list_row * parts + part) * (x.head_dim + 2);
      HEADMIX_UNROLL
      for (int j = 0; j < columns_per_thread; ++j) {
        Index const c = device.thread() % 8 + 8 * j;
        if (c >= width) continue;
        if (parts > 1) {
          device.store(to + col0 + c, out[i][j]);
        } else {
          device.store(&p.o(row, col + col0 + c), row_sum[i] == 0 ? T(0) : static_cast<T>(out[i][j] * factor));
        }
      }
      if (parts == 1 || !first_of_row) continue;
      device.store(to + x.head_dim, row_max[i]);
      device.store(to + x.head_dim + 1, row_sum[i]);
      if (part > 0) continue;
      device.store(row_offsets + 2 * list_row, row);
      device.store(row_offsets + 2 * list_row + 1, col);
    }
  }
};

/// o of rows from the sums of the parts. One block per row.
template <class T>
struct cached_attention_merge {
  using wide = accumulator_t<T>;
  static constexpr int threads = tuning::decoding.merge_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> o;
  wide const* sums;
  Index const* row_offsets;
  Int const* end;  ///< end of the rows if heads are chosen; otherwise null
  Index rows, parts, head_dim;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const list_row = device.block();
    if (end != nullptr && list_row >= *end) return;
    constexpr wide masked = minus_infinity<wide>;
    wide const* const of_row = sums + list_row * parts * (head_dim + 2);
    Index const row = device.load(row_offsets + 2 * list_row), col = device.load(row_offsets + 2 * list_row + 1);
    for (Index c = device.thread(); c < head_dim; c += threads) {
      wide row_max = masked, row_sum = 0, out = 0;
      for (Index part = 0; part < parts; ++part) {
        wide const* const from = of_row + part * (head_dim + 2);
        wide const part_max = device.load(from + head_dim), part_sum = device.load(from + head_dim + 1);
        if (part_sum == 0) continue;
        wide const new_max = part_max > row_max ? part_max : row_max;
        wide const rescale = row_max == masked ? wide(0) : exponential(device, row_max - new_max),
                   part_rescale = exponential(device, part_max - new_max);
        row_max = new_max;
        row_sum = row_sum * rescale + part_sum * part_rescale;
        out = out * rescale + device.load(from + c) * part_rescale;
      }
      device.store(&o(row, col + c), row_sum == 0 ? T(0) : static_cast<T>(out * (1 / row_sum)));
    }
  }
};

/// The means of cached_window_mean. A thread has a column of a sequence.
template <class T>
struct cached_mean_kernel {
  using sum_type = std::conditional_t<(sizeof(T) >= 4), double, float>;  // a double takes two cached numbers
  static constexpr int threads = tuning::cached_mean_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  view<T const> a;
  segments s;
  view<T> cache;
  cache_pages pages;
  Index window;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const e = device.block() * threads + device.thread();
    if (e >= s.count * a.cols) return;
    Index const b = e / a.cols, j = e % a.cols;
    bool const all = cache.cols != a.cols;
    for (Index i = s.begin(b); i < s.end(b); ++i) {
      Index const t = s.first_position(b) + i - s.begin(b), n = all || t + 1 < window ? t + 1 : window;
      T const value = device.load(&a(i, j));
      sum_type sum = 0;
      if (all) {
        if (t > 0) sum = sum_at(device, t - 1, b, j);
        sum += static_cast<sum_type>(value);
        store_sum(device, t, b, j, sum);
      } else {
        device.store(at(b, t, j), value);
        for (Index before = t + 1 - n; before < t; ++before)
          sum += static_cast<sum_type>(device.load(at(b, before, j)));
        sum += static_cast<sum_type>(value);
      }
      device.store(&y(i, j), static_cast<T>(sum / static_cast<sum_type>(n)));
    }
  }

 private:
  [[nodiscard]] HEADMIX_DEVICE T* at(Index b, Index t, Index j) const {
    return &cache(pages.page(b, t) * pages.rows + t % pages.rows, j);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE sum_type sum_at(Device& device, Index t, Index b, Index j) const {
    T const halves[2] = {device.load(at(b, t, 2 * j)), device.load(at(b, t, 2 * j + 1))};
    sum_type sum = 0;
    std::memcpy(&sum, halves, sizeof sum);
    return sum;
  }
  template <class Device>
  HEADMIX_DEVICE void store_sum(Device& device, Index t, Index b, Index j, sum_type sum) const {
    T halves[2] = {};
    std::memcpy(static_cast<void*>(halves), &sum, sizeof sum);
    device.store(at(b, t, 2 * j), halves[0]);
    device.store(at(b, t, 2 * j + 1), halves[1]);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
