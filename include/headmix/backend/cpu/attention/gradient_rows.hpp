#pragma once
// SPDX-License-Identifier: MIT
// A block of query rows in the backward pass of attention: its probabilities, recomputed or read, and the gradients of
// its scores, from which those of queries, keys, values, the bias and the operands of score maps are computed.

#include <algorithm>
#include <cmath>
#include <limits>

#include "headmix/backend/cpu/attention/attention.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// q and d_o of a block, and a tile, in pairs of successive rows: the operands of dot products over rows.
struct block_pairs {
  static constexpr Index most = gradient_tile::rows / 2;  ///< rows of pairs
  /// Pairs from row to row of the tile.
  static constexpr Index tile_row = odd_lines<pair>(gradient_tile::keys);
  pair *q, *d_o, *tile;

  [[nodiscard]] static constexpr Index rows_size(Index dim) { return most * padded<float>(dim); }
  [[nodiscard]] static constexpr Index bytes(Index dim) {
    return 2 * scratch_bytes<pair>(rows_size(dim)) + scratch_bytes<pair>(most * tile_row);
  }
  static block_pairs take(scratch_cutter& cut, Index dim) {
    pair* const q = cut.take<pair>(rows_size(dim));
    pair* const d_o = cut.take<pair>(rows_size(dim));
    return {q, d_o, cut.take<pair>(most * tile_row)};
  }
  /// The panel from column j on.
  [[nodiscard]] static pair* panel(pair* rows, Index j) { return rows + most * j; }
  static void pack(pair* to, view<bfloat16> rows) {
    each_value_panel<float>(rows.cols, [&](Index j, int, Index width) {
      pack_pairs(panel(to, j), width, rows.rows, (std::min)(width, rows.cols - j), 1,
                 [&](Index k) { return &rows(k, j); });
    });
  }
  /// tile = rows * scale, rounded
  template <class T>
  HEADMIX_WHOLE_VECTORS void round_tile(view<T> rows, T scale) const {
    for (Index i = 0; i < rows.rows; i += 2) {
      pair* const to = tile + i / 2 * tile_row;
      bool const both = i + 1 < rows.rows;
      for (Index j = 0; j < rows.cols; j += lanes<T>) {
        vector<pair> words = rounded_words(vector<T>(load(rows.row(i) + j) * scale));
        if (both) words |= rounded_words(vector<T>(load(rows.row(i + 1) + j) * scale)) << 16;
        store(to + j, words);
      }
    }
  }
};

/// Scratch of a worker of the backward pass, in bytes.
template <class Operands, class T, class Map>
constexpr Index gradient_worker_bytes(Index head_dim) {
  Index const paired = scratch_bytes<bfloat16>(gradient_tile::rows * head_dim);
  return (std::is_same_v<typename Operands::number, T> ? 0 : 2 * paired + block_pairs::bytes(head_dim)) +
         scratch_bytes<block_row>(gradient_tile::rows) + 2 * scratch_bytes<T>(gradient_tile::rows) +
         2 * scratch_bytes<T>(gradient_tile::rows * odd_lines<T>(head_dim)) +
         scratch_bytes<T>(gradient_tile::rows * (head_dim + lanes<T>)) +
         (Map::identity ? 2 : 3) * scratch_bytes<T>(gradient_tile::rows * odd_lines<T>(gradient_tile::keys));
}

/// d = (d - delta) p in the part, and 0 outside, where d may be anything. A single visible key has probability 1 for
/// any score: its d is exactly 0, or NaN.
template <class T>
void score_gradient(T* d, T const* p, tile_part const& part, Index keys, T delta, bool single) {
  if (single) {
    Index const j = part.begin;
    T const only = j < part.end && p[j] != T(0) ? (d[j] - delta) * p[j] : T(0);
    std::fill(d, d + padded<T>(keys), T(0));
    if (std::isnan(only)) d[j] = only;
    return;
  }
  std::fill(d, d + part.first, T(0));
  for (Index j = part.first; j < part.last; ++j) d[j] = p[j] == T(0) ? T(0) : (d[j] - delta) * p[j];
  std::fill(d + part.last, d + padded<T>(keys), T(0));
}

/// A block of rows whose probabilities and gradients of the scores are computed tile by tile.
template <AttentionMask M, class S, class Map, class Operands = wide_operands<accumulator_t<S>>>
struct gradient_rows {
  using T = accumulator_t<S>;
  using number = typename Operands::number;
  using panels = typename Operands::keys;
  static constexpr bool rounds = !std::is_same_v<number, T>;
  attention_backward<S, Map> const& a;
  Index count = 0;
  block_row* rows;
  T *lse, *delta;
  view<T> q, d_o;                             ///< q times the scale of the scores
  T *scores, *d_scores, *map_tile = nullptr;  ///< map_tile: unmapped scores or slopes
  view<number> q_factor, d_o_factor;          ///< operands of products; rounded ones without the scale
  block_pairs pairs;                          ///< for rounded operands
  bool finite = true;                         ///< q, d_o and lse are finite: whole tiles may multiply them by 0

  gradient_rows(attention_backward<S, Map> const& problem, scratch_cutter& cut) : a(problem) {
    Index const dim = a.extents.head_dim;
    rows = cut.take<block_row>(gradient_tile::rows);
    lse = cut.take<T>(gradient_tile::rows);
    delta = cut.take<T>(gradient_tile::rows);
    for (view<T>* const to : {&q, &d_o}) {
      *to = view<T>(cut.take<T>(gradient_tile::rows * odd_lines<T>(dim)), 0, dim);
      to->row_stride = odd_lines<T>(dim);
    }
    constexpr Index tile_size = gradient_tile::rows * odd_lines<T>(gradient_tile::keys);
    scores = cut.take<T>(tile_size);
    d_scores = cut.take<T>(tile_size);
    if constexpr (!Map::identity) map_tile = cut.take<T>(tile_size);
    if constexpr (rounds) {
      for (view<number>* const to : {&q_factor, &d_o_factor})
        *to = view<number>(cut.take<number>(gradient_tile::rows * dim), 0, dim);
      pairs = block_pairs::take(cut, dim);
    }
  }
  /// Reads the operands of the first n rows.
  void gather(Index n) {
    Index const dim = a.extents.head_dim;
    count = q.rows = d_o.rows = n;
    gather_heads<T>(q, a.o, rows, T(1));
    gather_heads<T>(d_o, a.d_o, rows, T(1));
    for (Index i = 0; i < n; ++i) {
      delta[i] = (array_map<T>(q.row(i), dim) * array_map<T>(d_o.row(i), dim)).sum();
      lse[i] = a.lse(rows[i].at.row, a.extents.lse_col(rows[i].at));
      // A row without keys, or with scores of minus infinity only: any finite shift is right.
      if (lse[i] == -std::numeric_limits<T>::infinity()) {
        lse[i] = T(0);
        rows[i].keys = {0, 0};
      }
    }
    gather_heads<T>(q, a.q, rows, static_cast<T>(a.scores.scale));
    // Zeros up to whole vectors, which add_by_keys reads.
    for (Index i = 0; i < n; ++i)
      for (view<T> const& to : {q, d_o}) std::fill(to.row(i) + dim, to.row(i) + to.row_stride, T(0));
    // delta is finite only if d_o is.
    finite = all_finite(lse, n) && all_finite(delta, n) && all_finite(q.data, n * q.row_stride);
    if constexpr (rounds) {
      q_factor.rows = d_o_factor.rows = n;
      gather_heads<T>(q_factor, a.q, rows, T(1));
      gather_heads<T>(d_o_factor, a.d_o, rows, T(1));
      block_pairs::pack(pairs.q, q_factor);
      block_pairs::pack(pairs.d_o, d_o_factor);
    } else {
      q_factor = q;
      d_o_factor = d_o;
    }
  }
  [[nodiscard]] tile_rows visible_rows() const { return {rows, count}; }
  [[nodiscard]] view<T> tile(T* data, Index keys) const {
    view<T> v(data, count, keys);
    v.row_stride = odd_lines<T>(keys);
    return v;
  }
  /// p = the probabilities of the keys [begin, end) before dropout; map(scores, row, part) maps the scores of a row.
  template <class F>
  void probabilities(view<T> p, panels const& all_keys, Index sequence, Index kv_head, Index begin, Index end, F map) {
    all_keys.multiply(p, q_factor, visible_rows(), sequence, kv_head, begin);
    for (Index i = 0; i < count; ++i) {
      tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
      if constexpr (rounds) scale_scores(p.row(i), part, static_cast<T>(a.scores.scale));
      add_bias(p.row(i), a.scores, part, rows[i].at, begin);
      map(p.row(i), i, part);
      mask_scores<M>(p.row(i), part, rows[i].at.position, begin);
      T sums[lanes<T>];
      exponentiate(sums, p.row(i), p.row(i), part, end - begin, lse[i]);
      if (std::isnan(lse[i])) mask_scores<M>(p.row(i), part, rows[i].at.position, begin, T(0));
    }
  }
  /// p = the probabilities; returns p times the slopes of the score map, to which the gradients of the scores are
  /// proportional, and p where all slopes are 1.
  view<T> probabilities_and_slopes(view<T> p, panels const& all_keys, Index sequence, Index kv_head, Index begin,
                                   Index end) {
    if constexpr (has_slope<Map>) {
      view<T> const slopes = tile(map_tile, end - begin);
      probabilities(p, all_keys, sequence, kv_head, begin, end, [&](T* row, Index i, tile_part const& part) {
        map_scores_with_slopes(row, slopes.row(i), a.scores, part, rows[i].at, begin);
      });
      for (Index i = 0; i < count; ++i) {
        tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
        multiply_slopes(slopes.row(i), p.row(i), part);
      }
      return slopes;
    } else {
      probabilities(p, all_keys, sequence, kv_head, begin, end, [&](T* row, Index i, tile_part const& part) {
        map_scores(row, a.scores, part, rows[i].at, begin);
      });
      return p;
    }
  }
  /// p = the probabilities of the keys [begin, end) of one stored tile; row 0 of p is the stored row `first`.
  HEADMIX_WHOLE_VECTORS void read(view<T> p, stored_probabilities<T const> const& stored, Index first, Index begin,
                                  Index end) const {
    static_assert(attention_tile::keys % gradient_tile::keys == 0 && gradient_tile::rows % lanes<T> == 0,
                  "headmix: tiles of the gradient divide the keys of a tile, and vectors its rows");
    constexpr Index distance = tuning::stored_prefetch;
    alignas(64) T factor[gradient_tile::rows] = {};
    for (Index i = 0; i < count; ++i) factor[i] = stored.shift(first + i, begin) - lse[i];
    for (Index i = 0; i < count; i += lanes<T>) store(factor + i, exp_of_negative(load(factor + i)));
    view<T const> const from = stored.part(first, count, begin, end);
    for (Index i = 0; i < count; ++i) {
      tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
      T* const to = p.row(i);
      if (i + distance < count)
        for (Index j = part.first; j < part.last; j += lanes<T>) __builtin_prefetch(from.row(i + distance) + j);
      std::fill(to, to + part.first, T(0));
      for (Index j = part.first; j < part.last; j += lanes<T>) store(to + j, load(from.row(i) + j) * factor[i]);
      std::fill(to + part.last, to + padded<T>(end - begin), T(0));
      if (std::isnan(lse[i])) mask_scores<M>(to, part, rows[i].at.position, begin, T(0));
    }
  }
  /// to = from times the factors of dropout
  void drop_tile(view<T> to, view<T> from, Index begin, Index end) const {
    for (Index i = 0; i < count; ++i) {
      drop(to.row(i), from.row(i), a.dropout, a.extents, rows[i].at, part_of_tile<T>(rows[i].keys, begin, end),
           end - begin, begin);
    }
  }
  /// d_s = the gradients of the scores, from p times the slopes
  void score_gradients(view<T> d_s, view<T> p, panels const& all_values, Index sequence, Index kv_head, Index begin,
                       Index end) {
    all_values.multiply(d_s, d_o_factor, visible_rows(), sequence, kv_head, begin);
    if (a.dropout.on()) drop_tile(d_s, d_s, begin, end);
    for (Index i = 0; i < count; ++i) {
      score_gradient<T>(d_s.row(i), p.row(i), part_of_tile<T>(rows[i].keys, begin, end), end - begin, delta[i],
                        rows[i].keys.end - rows[i].keys.begin == 1);
      if (a.d_q.data && end >= rows[i].keys.end) prefetch_head(a.d_q, rows[i].at, a.extents.head_dim);
    }
  }
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
