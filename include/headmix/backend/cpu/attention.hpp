#pragma once
// SPDX-License-Identifier: MIT
// Attention in blocks of query rows against tiles of keys with an online softmax (Milakov and Gimelshein 2018, Dao et
// al. 2022): scratch is a few tiles per worker, and tiles that the mask hides altogether cost nothing.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/attention_pairs.hpp"
#include "headmix/backend/cpu/attention_scores.hpp"
#include "headmix/backend/cpu/attention_stored.hpp"
#include "headmix/backend/cpu/eigen.hpp"
#include "headmix/backend/cpu/parallel.hpp"

namespace headmix::cpu::inline HEADMIX_ISA {

namespace detail {

/// to = from * scale, element by element; the stride of one side or the other may differ from 1, and the numbers of one
/// be narrower than T.
template <class T, class To, class From>
void copy_scaled(To* to, Index to_stride, From const* from, Index from_stride, Index n, T scale) {
  if (to_stride == 1 && from_stride == 1) {
    for (Index j = 0; j < n; ++j) to[j] = static_cast<To>(static_cast<T>(from[j]) * scale);
  } else {
    for (Index j = 0; j < n; ++j) to[j * to_stride] = static_cast<To>(static_cast<T>(from[j * from_stride]) * scale);
  }
}

/// Copies the heads of the block's rows below each other, times `scale`.
template <class T, class To, class S>
void gather_heads(view<To> to, view<S const> from, block_row const* rows, T scale) {
  constexpr Index ahead = tuning::head_ahead, line = 64 / static_cast<Index>(sizeof(S));
  for (Index i = 0; i < to.rows; ++i) {
    if (i + ahead < to.rows && from.col_stride == 1) {
      S const* const next = &from(rows[i + ahead].at.row, rows[i + ahead].at.col);
      for (Index j = 0; j < to.cols; j += line) __builtin_prefetch(next + j);
    }
    copy_scaled<T>(to.row(i), 1, &from(rows[i].at.row, rows[i].at.col), from.col_stride, to.cols, scale);
  }
}

/// Asks for the cache lines of a head's row that are written soon: to copy rows there would else wait for memory.
template <class T>
void fetch_head(view<T> to, query_row const& at, Index dim) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  if (to.col_stride != 1) return;
  T* const row = &to(at.row, at.col);
  for (Index j = 0; j < dim; j += line) __builtin_prefetch(row + j, 1, 2);
}

// Sums and maxima of rows are kept lane by lane and folded for all rows of a block at once.

/// out[lane] = the highest score of the part in this lane. Two maxima: one would wait for itself.
template <class T>
HEADMIX_WHOLE_VECTORS void highest_lanes(T* out, T const* scores, tile_part const& part) {
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

/// e^x for scores less their highest or their log-sum-exp: x <= 0 but for rounding. 1 at 0, and 0 below e^-87.
HEADMIX_WHOLE_VECTORS inline vector<float> exp_of_negative(vector<float> x) {
  // e^x = 2^n 2^f, f in [-1/2, 1/2]. Adding 1.5 2^23 rounds to an integer, which is then in the last bits.
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
  // The polynomial through (0, 1) that is nearest to 2^f, off by 9e-8 at most.
  vector<float> p = f * 0.001326472707771847f + 0.009671512648947672f;
  p = p * f + 0.055507337436513364f;
  p = p * f + 0.2402224208517232f;
  p = p * f + 0.693146977598883f;
  p = p * f + 1.0f;
  return x < -87.0f ? vector<float>{} : p * power;
}
/// Eigen's, which is not 0 of minus infinity.
HEADMIX_WHOLE_VECTORS inline vector<double> exp_of_negative(vector<double> x) {
  vector<double> const e = each_lane<Eigen::internal::scalar_exp_op<double>, double>(x);
  return x == broadcast(-std::numeric_limits<double>::infinity()) ? vector<double>{} : e;
}

/// Writes v as numbers of Number: T itself, or rounded to the operands of dot products.
template <class Number, class T>
HEADMIX_WHOLE_VECTORS void store_number(Number* to, vector<T> const& v) {
  if constexpr (std::is_same_v<Number, T>) {
    store(to, v);
  } else {
    store_rounded(to, v);
  }
}
/// A matrix of T as numbers of Number, each row in the memory of its own.
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
/// Writes n numbers, whole vectors, as numbers of Number, to memory that may be their own.
template <class Number, class T>
HEADMIX_WHOLE_VECTORS void round_row(Number* to, T const* from, Index n) {
  for (Index j = 0; j < n; j += lanes<T>) store_number<Number, T>(to + j, load(from + j));
}

/// to = exp(scores - shift) in the part, and exactly 0 where they are hidden or outside; sums[lane] = their sum in this
/// lane, before they are rounded. `to` may be where the scores are.
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

/// to = p times the factors of dropout in the part, for keys that begin at `tile_begin`; 0 outside.
template <class T>
void drop(T* to, T const* p, attention_dropout const& dropout, attention_extents const& x, query_row at,
          tile_part const& part, Index keys, Index tile_begin) {
  std::fill(to, to + part.begin, T(0));
  std::fill(to + part.end, to + padded<T>(keys), T(0));
  dropout.each_factor(x, at, tile_begin + part.begin, tile_begin + part.end,
                      [&](Index s, double factor) { to[s - tile_begin] = p[s - tile_begin] * static_cast<T>(factor); });
}

/// result[i] = the lanes of row i, one after the other combined into it by `combine`; `by_row` holds n x lanes, `room`
/// as many again.
template <class T, class F>
void fold_lanes(T* result, T const* by_row, T* room, Index n, F combine) {
  transpose<T>(room, n, view<T const>(by_row, n, lanes<T>));
  array_map<T> folded(result, n);
  folded = array_map<T>(room, n);
  for (Index lane = 1; lane < lanes<T>; ++lane) combine(folded, array_map<T>(room + lane * n, n));
}

/// The part of a row of scores, times `scale`.
template <class T>
HEADMIX_WHOLE_VECTORS void scale_scores(T* scores, tile_part const& part, T scale) {
  for (Index j = part.first; j < part.last; j += lanes<T>) store(scores + j, vector<T>(load(scores + j) * scale));
}

/// scores = those of the keys [begin, end) for the rows of a block, minus infinity where a row does not see a key, in
/// the part of the tile that part_of_tile says; highest[i] = the highest one of row i.
/// @param q  times the scale, unless these are narrower numbers than T
/// @param by_row  memory for a vector for each row; `room` as much again
template <AttentionMask M, class T, class S, class Map, class Number, class Keys>
void score_tile(view<T> scores, T* highest, attention_scores<S, Map> const& s, view<Number> q, tile_rows const& rows,
                Keys const& keys, Index sequence, Index kv_head, Index begin, T* by_row, T* room) {
  keys.multiply(scores, q, rows, sequence, kv_head, begin);
  for (Index i = 0; i < rows.count; ++i) {
    block_row const& row = rows.rows[i];
    tile_part const part = part_of_tile<T>(row.keys, begin, begin + scores.cols);
    if constexpr (!std::is_same_v<Number, T>) scale_scores(scores.row(i), part, static_cast<T>(s.scale));
    add_bias(scores.row(i), s, part, row.at, begin);
    map_scores(scores.row(i), s, part, row.at, begin);
    hide<M>(scores.row(i), part, row.at.position, begin);
    highest_lanes(by_row + i * lanes<T>, scores.row(i), part);
  }
  fold_lanes(highest, by_row, room, rows.count, [](auto& result, auto const& lane) { result = (result.max)(lane); });
}

/// @param exactly  takes only values that a row sees. Without, a value that is not finite would make NaN of rows that
///                 do not see it, by a probability of 0: rows that are found so are computed again.
template <AttentionMask M, class Operands, class S, class T, class Map>
void attention_block(attention_forward<S, Map> const& a, row_block const& block, typename Operands::keys const& keys,
                     typename Operands::values const& values, stored_probabilities<T> const& stored, scratch_cutter cut,
                     bool exactly = false) {
  using number = typename Operands::number;
  constexpr bool rounds = !std::is_same_v<number, T>;
  scratch_cutter const whole = cut;
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  attention_extents const& x = a.extents;
  Index const n = block.rows, dim = x.head_dim, kv_head = x.kv_head_of(block.list);
  auto* const rows = cut.take<block_row>(attention_tile::rows);
  T* const top = cut.take<T>(attention_tile::rows);
  T* const total = cut.take<T>(attention_tile::rows);
  T* const update = cut.take<T>(attention_tile::rows);
  T* const by_row = cut.take<T>(attention_tile::rows * lanes<T>);
  T* const room = cut.take<T>(attention_tile::rows * lanes<T>);
  view<number> const q(cut.take<number>(attention_tile::rows * dim), n, dim);
  Index const o_row = value_panels<T>::padded_dim(x);
  view<T> const o(cut.take<T>(attention_tile::rows * o_row), n, o_row);
  T* const scores = cut.take<T>(attention_tile::rows * attention_tile::keys);

  bool const drops = a.dropout.on(), stores = stored.on();
  Index const first_row = stores ? x.list_begin(block.sequence, block.list) + block.first : 0;
  key_range const all = describe_rows<M>(x, block, rows);
  tile_rows const visible_rows{rows, n};
  gather_heads<T>(q, a.q, rows, rounds ? T(1) : static_cast<T>(a.scores.scale));
  if (all.begin >= all.end) clear(o);
  std::fill_n(top, n, hidden);
  std::fill_n(total, n, T(0));

  Index const step = stores ? attention_tile::keys : key_panels<T>::width, first = all.begin / step * step;
  for (Index begin = first; begin < all.end; begin += attention_tile::keys) {
    Index const end = (std::min)(begin + attention_tile::keys, all.end);
    view<T> own(scores, n, end - begin);
    own.row_stride = padded<T>(end - begin);
    view<T> const tile = stores ? stored.part(first_row, n, begin, end) : own;
    score_tile<M, T>(tile, update, a.scores, q, visible_rows, keys, block.sequence, kv_head, begin, by_row, room);
    view<number> const weights = in_place<number>(drops ? own : tile);
    for (Index i = 0; i < n; ++i) {
      if (update[i] > top[i]) {
        if (top[i] != hidden) {
          T const shrink = std::exp(top[i] - update[i]);
          total[i] *= shrink;
          array_map<T>(o.row(i), o_row) *= shrink;
        }
        top[i] = update[i];
      }
      if (end >= rows[i].keys.end) fetch_head(a.o, rows[i].at, dim);
      // While a row has seen nothing its shift is 0: minus infinity less minus infinity would be a NaN.
      tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
      T const shift = top[i] == hidden ? T(0) : top[i];
      if (drops) {
        exponentiate(by_row + i * lanes<T>, tile.row(i), tile.row(i), part, end - begin, shift);
      } else {
        exponentiate(by_row + i * lanes<T>, weights.row(i), tile.row(i), part, end - begin, shift);
      }
      if (stores) stored.shift(first_row + i, begin) = top[i];
    }
    fold_lanes(update, by_row, room, n, [](auto& result, auto const& lane) { result += lane; });
    array_map<T>(total, n) += array_map<T>(update, n);
    if (drops) {
      for (Index i = 0; i < n; ++i) {
        drop(own.row(i), tile.row(i), a.dropout, x, rows[i].at, part_of_tile<T>(rows[i].keys, begin, end), end - begin,
             begin);
        if constexpr (rounds) round_row(weights.row(i), own.row(i), padded<T>(end - begin));
      }
    }
    if (exactly) {
      values.template multiply_seen<M>(o, weights, visible_rows, block.sequence, kv_head, begin, begin > first);
    } else {
      values.multiply(o, weights, visible_rows, block.sequence, kv_head, begin, begin > first);
    }
  }

  if (!exactly && !all_finite(o.data, n * o_row)) {
    for (Index i = 0; i < n; ++i) {
      if (total[i] > T(0) && !all_finite(o.row(i), dim))
        return attention_block<M, Operands>(a, block, keys, values, stored, whole, true);
    }
  }
  array_map<T>(update, n) = array_map<T>(total, n).log() + array_map<T>(top, n);
  for (Index i = 0; i < n; ++i) {
    bool const nothing = total[i] == T(0);
    if (nothing) std::fill_n(o.row(i), dim, T(0));
    copy_scaled<T>(&a.o(rows[i].at.row, rows[i].at.col), a.o.col_stride, o.row(i), 1, dim,
                   nothing ? T(0) : T(1) / total[i]);
    if (a.lse.data) a.lse(rows[i].at.row, x.lse_col(rows[i].at)) = nothing ? hidden : update[i];
  }
}

/// Scratch of one worker of the forward pass.
template <class T>
constexpr Index attention_worker_bytes(Index head_dim) {
  return scratch_bytes<block_row>(attention_tile::rows) + 3 * scratch_bytes<T>(attention_tile::rows) +
         2 * scratch_bytes<T>(attention_tile::rows * lanes<T>) + scratch_bytes<T>(attention_tile::rows * head_dim) +
         scratch_bytes<T>(attention_tile::rows * (head_dim + lanes<T>)) +
         scratch_bytes<T>(attention_tile::rows * attention_tile::keys);
}

/// f(row) for the rows of q that are in no list: those of slots that chose nothing.
template <class F>
void for_each_unrouted_row(executor_ref executor, attention_extents const& x, F f) {
  if (!x.heads_are_chosen()) return;
  Int const* const slots = x.chosen.slots;
  Index const block = 1024, first = x.chosen.offsets[x.queries.count * x.heads],
              last = x.queries.rows * x.rows_per_token;
  executor.parallel_for((last - first + block - 1) / block, [&](Index t) {
    for (Index i = first + t * block; i < (std::min)(last, first + (t + 1) * block); ++i) f(slots[i]);
  });
}

}  // namespace detail

/// Scratch that attention needs, in bytes.
template <class S, class Products = products::exact>
[[nodiscard]] Index attention_scratch_bytes(attention_extents const& extents, Index concurrency) {
  using T = accumulator_t<S>;
  return detail::with_operands<S, Products>([&]<class Operands>(Operands) {
    using element = typename Operands::element;
    return scratch_alignment + scratch_bytes<Index>(detail::block_table::size(extents)) +
           scratch_bytes<element>(Operands::keys::size(extents)) +
           scratch_bytes<element>(Operands::values::size(extents)) +
           concurrency * detail::attention_worker_bytes<T>(extents.head_dim);
  });
}

/// Columns that a.probabilities must have for the forward pass to store them; 0 where the gradient needs the scores,
/// and where they would be rounded to numbers narrower than those that are calculated with.
template <class T, class Map>
[[nodiscard]] Index attention_columns(attention_forward<T, Map> const& a) {
  if (detail::has_slope<Map> || detail::widens<T>) return 0;
  return detail::stored_probabilities<T>::columns(a.extents);
}

namespace detail {

template <AttentionMask M, class Operands, class S, class Map>
void attention_with(executor_ref executor, attention_forward<S, Map> const& a, std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  using element = typename Operands::element;
  if (a.extents.head_dim == 0) return;
  for_each_unrouted_row(executor, a.extents, [&](Index row) {
    clear_row(a.o, row, a.extents.head_dim);
    if (a.lse.data) a.lse(row, 0) = -std::numeric_limits<T>::infinity();
  });
  scratch_cutter begin(scratch);
  block_table const blocks(a.extents, begin.take<Index>(block_table::size(a.extents)));
  typename Operands::keys const keys(a.extents, begin.take<element>(Operands::keys::size(a.extents)));
  typename Operands::values const values(a.extents, begin.take<element>(Operands::values::size(a.extents)));
  keys.pack(executor, a.k);
  values.pack(executor, a.v);
  view<T> probabilities;
  if constexpr (!widens<S>) probabilities = a.probabilities;
  stored_probabilities<T> const stored(a.extents, probabilities);
  Index const bytes = attention_worker_bytes<T>(a.extents.head_dim), tasks = blocks.blocks();
  // The last blocks of a causal list see the most keys and go first, so that no thread is left with one at the end.
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    attention_block<M, Operands>(a, blocks[tasks - 1 - task], keys, values, stored,
                                 scratch_cutter(begin.position() + worker * bytes));
  });
}

}  // namespace detail

/// o = softmax(scores where M allows) v, and the log-sum-exp of each row unless a.lse.data is null. A row that sees
/// nothing or is in no list gets o = 0 and a log-sum-exp of minus infinity.
template <AttentionMask M, class Products = products::exact, class S, class Map>
void attention(executor_ref executor, attention_forward<S, Map> const& a, std::span<std::byte> scratch) {
  detail::with_operands<S, Products>(
      [&]<class Operands>(Operands) { detail::attention_with<M, Operands>(executor, a, scratch); });
}

}  // namespace headmix::cpu::inline HEADMIX_ISA
