#pragma once
// SPDX-License-Identifier: MIT
// The online softmax (Milakov and Gimelshein 2018): from products of queries and keys to scores and probabilities, row
// by row of a tile.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "headmix/backend/cpu/attention/rows.hpp"
#include "headmix/backend/cpu/attention/scores.hpp"
#include "headmix/backend/cpu/attention/stored.hpp"
#include "headmix/backend/cpu/products/pairs.hpp"
#include "headmix/backend/cpu/simd/eigen.hpp"
#include "headmix/backend/cpu/simd/transpose.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Prefetches a head's row that will be written soon.
template <class T>
void prefetch_head(view<T> to, query_row const& at, Index dim) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  if (to.col_stride != 1) return;
  T* const row = &to(at.row, at.col);
  for (Index j = 0; j < dim; j += line) __builtin_prefetch(row + j, 1, 2);
}

// Sums and maxima of rows are accumulated lane by lane and folded for all rows of a block at once.

/// out[lane] = the largest score of the part in this lane, by two independent maxima.
template <class T>
HEADMIX_WHOLE_VECTORS void max_lanes(T* out, T const* scores, tile_part const& part) {
  vector<T> even = vector<T>{} - std::numeric_limits<T>::infinity(), odd = even;
  Index j = part.first;
  for (; j + 2 * lanes<T> <= part.last; j += 2 * lanes<T>) {
    vector<T> const s = load(scores + j), t = load(scores + j + lanes<T>);
    even = even > s ? even : s;
    odd = odd > t ? odd : t;
  }
  if (j < part.last) {
    vector<T> const s = load(scores + j);
    even = even > s ? even : s;
  }
  store(out, vector<T>(even > odd ? even : odd));
}

/// e^x for scores less their maximum or log-sum-exp: x <= 0 but for rounding. Exactly 1 at 0, and 0 for x < -87.
HEADMIX_WHOLE_VECTORS inline vector<float> exp_of_negative(vector<float> x) {
  // e^x = 2^n 2^f, f in [-1/2, 1/2]. Adding 1.5 2^23 rounds to an integer n, which is in the last bits of the sum.
  constexpr float log2_e = 1.44269504088896f, round = 12582912.0f;
  vector<float> shifted = x * log2_e + round;
  opaque(shifted);
  vector<float> const n = shifted - round;
  vector<float> const f = x * log2_e - n;
  vector<std::int32_t> exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent << 23) + 0x3f800000;
  vector<float> power;
  std::memcpy(&power, &exponent, sizeof power);
  // The minimax polynomial of 2^f with value 1 at 0; its error is at most 9e-8.
  vector<float> p = f * 0.001326472707771847f + 0.009671512648947672f;
  p = p * f + 0.055507337436513364f;
  p = p * f + 0.2402224208517232f;
  p = p * f + 0.693146977598883f;
  p = p * f + 1.0f;
  return x < -87.0f ? vector<float>{} : p * power;
}
/// Eigen's exp, and 0 for minus infinity, where Eigen's is a small number.
HEADMIX_WHOLE_VECTORS inline vector<double> exp_of_negative(vector<double> x) {
  vector<double> const e = each_lane<Eigen::internal::scalar_exp_op<double>, double>(x);
  return x == broadcast(-std::numeric_limits<double>::infinity()) ? vector<double>{} : e;
}

/// Stores v as Number: T, or rounded to bfloat16 for dot products.
template <class Number, class T>
HEADMIX_WHOLE_VECTORS void store_number(Number* to, vector<T> const& v) {
  if constexpr (std::is_same_v<Number, T>) {
    store(to, v);
  } else {
    store_rounded(to, v);
  }
}
/// A matrix of Number in the memory of a matrix of T, row by row.
template <class Number, class T>
[[nodiscard]] view<Number> in_place(view<T> v) {
  if constexpr (std::is_same_v<Number, T>) {
    return v;
  } else {
    view<Number> narrow(reinterpret_cast<Number*>(v.data), v.rows, v.cols);
    narrow.row_stride = v.row_stride * static_cast<Index>(sizeof(T) / sizeof(Number));
    return narrow;
  }
}
/// Stores n numbers, whole vectors, as Number; `to` may be `from`.
template <class Number, class T>
HEADMIX_WHOLE_VECTORS void round_row(Number* to, T const* from, Index n) {
  for (Index j = 0; j < n; j += lanes<T>) store_number<Number, T>(to + j, load(from + j));
}

/// to = exp(scores - shift) in the part, and exactly 0 at masked scores and outside; sums[lane] = the sum in this lane,
/// before rounding. `to` may be `scores`.
template <class Number, class T>
HEADMIX_WHOLE_VECTORS void exponentiate(T* sums, Number* to, T const* scores, tile_part const& part, Index keys,
                                        T shift) {
  vector<T> sum{};
  for (Index j = 0; j < part.first; j += lanes<T>) store_number<Number, T>(to + j, vector<T>{});
  for (Index j = part.first; j < part.last; j += lanes<T>) {
    vector<T> const p = exp_of_negative(vector<T>(load(scores + j) - shift));
    store_number<Number, T>(to + j, p);
    sum += p;
  }
  for (Index j = part.last; j < padded<T>(keys); j += lanes<T>) store_number<Number, T>(to + j, vector<T>{});
  store(sums, sum);
}

/// to = p times the factors of dropout in the part of the tile from key `tile_begin` on; 0 outside.
template <class T>
void drop(T* to, T const* p, attention_dropout const& dropout, attention_extents const& x, query_row at,
          tile_part const& part, Index keys, Index tile_begin) {
  std::fill(to, to + part.begin, T(0));
  std::fill(to + part.end, to + padded<T>(keys), T(0));
  dropout.each_factor(x, at, tile_begin + part.begin, tile_begin + part.end,
                      [&](Index s, double factor) { to[s - tile_begin] = p[s - tile_begin] * static_cast<T>(factor); });
}

/// result[i] = the lanes of row i, combined in order by `combine`. `row_lanes` has n x lanes numbers, `fold_scratch` as
/// many.
template <class T, class F>
void fold_lanes(T* result, T const* row_lanes, T* fold_scratch, Index n, F combine) {
  transpose<T>(fold_scratch, n, view<T const>(row_lanes, n, lanes<T>));
  array_map<T> folded(result, n);
  folded = array_map<T>(fold_scratch, n);
  for (Index lane = 1; lane < lanes<T>; ++lane) combine(folded, array_map<T>(fold_scratch + lane * n, n));
}

/// scores *= scale in the part
template <class T>
HEADMIX_WHOLE_VECTORS void scale_scores(T* scores, tile_part const& part, T scale) {
  for (Index j = part.first; j < part.last; j += lanes<T>) store(scores + j, vector<T>(load(scores + j) * scale));
}

/// From products to scores of a row, for the part of the tile from key `begin` on; masked scores are minus infinity.
/// lanes_of_row[lane] = the largest score in this lane.
/// @param scales  whether the products are not scaled yet
template <AttentionMask M, class T, class S, class Map>
void finish_scores(T* scores, T* lanes_of_row, attention_scores<S, Map> const& s, block_row const& row,
                   tile_part const& part, Index begin, bool scales) {
  if (scales) scale_scores(scores, part, static_cast<T>(s.scale));
  add_bias(scores, s, part, row.at, begin);
  map_scores(scores, s, part, row.at, begin);
  mask_scores<M>(scores, part, row.at.position, begin);
  max_lanes(lanes_of_row, scores, part);
}
/// result[i] = the maximum of the lanes of row i
template <class T>
void fold_max(T* result, T const* row_lanes, T* fold_scratch, Index n) {
  fold_lanes(result, row_lanes, fold_scratch, n, [](auto& all, auto const& lane) { all = (all.max)(lane); });
}
/// result[i] = the sum of the lanes of row i
template <class T>
void fold_sums(T* result, T const* row_lanes, T* fold_scratch, Index n) {
  fold_lanes(result, row_lanes, fold_scratch, n, [](auto& all, auto const& lane) { all += lane; });
}

/// scores = the scores of the rows of a block for the keys of a tile from `begin` on, masked ones minus infinity, in
/// the part of each row (part_of_tile); row_max[i] = the largest score of row i.
/// @param q  times the scale, unless Number is narrower than T
/// @param row_lanes, fold_scratch  memory for a vector per row, each
template <AttentionMask M, class T, class S, class Map, class Number, class Keys>
void score_tile(view<T> scores, T* row_max, attention_scores<S, Map> const& s, view<Number> q, tile_rows const& rows,
                Keys const& keys, Index sequence, Index kv_head, Index begin, T* row_lanes, T* fold_scratch) {
  keys.multiply(scores, q, rows, sequence, kv_head, begin);
  for (Index i = 0; i < rows.count; ++i)
    finish_scores<M>(scores.row(i), row_lanes + i * lanes<T>, s, rows.rows[i],
                     part_of_tile<T>(rows.rows[i].keys, begin, begin + scores.cols), begin, !std::is_same_v<Number, T>);
  fold_max(row_max, row_lanes, fold_scratch, rows.count);
}

/// The state of the online softmax of some rows, from tile to tile, and scratch.
template <class T>
struct softmax_rows {
  tile_rows visible;
  T* row_max;                   ///< the running maximum of the scores
  T* row_sum;                   ///< the running sum of e^(score - row_max)
  T* tile_fold;                 ///< the maximum, then the sum of a tile
  T *row_lanes, *fold_scratch;  ///< a vector per row
  view<T> o;                    ///< the running sum of e^(score - row_max) v

  [[nodiscard]] softmax_rows part(Index first, Index n) const {
    return {{visible.rows + first, n},
            row_max + first,
            row_sum + first,
            tile_fold + first,
            row_lanes + first * lanes<T>,
            fold_scratch + first * lanes<T>,
            o.middle_rows(first, n)};
  }
};

/// The softmax of some rows of a tile of products, a row at a step: first scores and maxima of all rows, then
/// exponentials. Products of other rows may run between the steps.
template <AttentionMask M, class Number, class S, class T, class Map>
class tile_softmax {
 public:
  /// @param own  the block's memory for a tile, where the scores may be
  /// @param stored_row  the row of `stored` of the first row
  tile_softmax(attention_forward<S, Map> const& a, softmax_rows<T> const& rows, view<T> scores, view<T> own,
               Index begin, stored_probabilities<T> const& stored, Index stored_row)
      : a_(a),
        rows_(rows),
        scores_(scores),
        own_(own),
        weights_(in_place<Number>(a.dropout.on() ? own : scores)),
        begin_(begin),
        stored_(stored),
        stored_row_(stored_row) {}

  void step() {
    Index const n = rows_.visible.count, i = next_ < n ? next_ : next_ - n;
    if (next_ == 2 * n) return;
    if (next_++ < n) {
      finish_scores<M>(scores_.row(i), lanes_of(i), a_.scores, row(i), part(i), begin_, !std::is_same_v<Number, T>);
      if (next_ == n) fold_max(rows_.tile_fold, rows_.row_lanes, rows_.fold_scratch, n);
      return;
    }
    exponentiate_row(i);
    if (next_ < 2 * n) return;
    fold_sums(rows_.tile_fold, rows_.row_lanes, rows_.fold_scratch, n);
    array_map<T>(rows_.row_sum, n) += array_map<T>(rows_.tile_fold, n);
  }
  void finish() {
    while (next_ < 2 * rows_.visible.count) step();
  }

 private:
  [[nodiscard]] block_row const& row(Index i) const { return rows_.visible.rows[i]; }
  [[nodiscard]] T* lanes_of(Index i) const { return rows_.row_lanes + i * lanes<T>; }
  [[nodiscard]] tile_part part(Index i) const { return part_of_tile<T>(row(i).keys, begin_, begin_ + scores_.cols); }
  void exponentiate_row(Index i) const {
    constexpr T masked = -std::numeric_limits<T>::infinity();
    Index const keys = scores_.cols, o_row = rows_.o.cols;
    T& row_max = rows_.row_max[i];
    if (rows_.tile_fold[i] > row_max) {
      if (row_max != masked) {
        T const rescale = std::exp(row_max - rows_.tile_fold[i]);
        rows_.row_sum[i] *= rescale;
        array_map<T>(rows_.o.row(i), o_row) *= rescale;
      }
      row_max = rows_.tile_fold[i];
    }
    if (begin_ + keys >= row(i).keys.end) prefetch_head(a_.o, row(i).at, a_.extents.head_dim);
    // A row without visible keys so far has a shift of 0: minus infinity less minus infinity is NaN.
    T const shift = row_max == masked ? T(0) : row_max;
    if (a_.dropout.on()) {
      exponentiate(lanes_of(i), scores_.row(i), scores_.row(i), part(i), keys, shift);
      drop(own_.row(i), scores_.row(i), a_.dropout, a_.extents, row(i).at, part(i), keys, begin_);
      if constexpr (!std::is_same_v<Number, T>) round_row(weights_.row(i), own_.row(i), padded<T>(keys));
    } else {
      exponentiate(lanes_of(i), weights_.row(i), scores_.row(i), part(i), keys, shift);
    }
    if (stored_.on()) stored_.shift(stored_row_ + i, begin_) = row_max;
  }

  attention_forward<S, Map> const& a_;
  softmax_rows<T> rows_;
  view<T> scores_, own_;
  view<Number> weights_;
  Index begin_;
  stored_probabilities<T> const& stored_;
  Index stored_row_, next_ = 0;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
