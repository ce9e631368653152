#pragma once
// SPDX-License-Identifier: MIT
// The gradient of attention. Probabilities are recomputed tile by tile from the log-sum-exp, so nothing of the size
// queries x keys is kept. The row list of a (sequence, key/value head) is cut into parts whose number the extents alone
// decide; each part sums its own d_k and d_v, and the parts are added in order. That takes five products per tile (two
// passes, one by rows and one by keys, would take seven) and the same bits come out on any executor.

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/attention.hpp"

namespace headmix::cpu {

namespace detail {

/// Parts that every row list is cut into: enough for 16 threads in all, and of one block of rows at least on average.
inline Index gradient_parts(attention_extents const& x) {
  Index const lists = (std::max)(Index{1}, x.queries.count * x.kv_heads);
  Index const blocks = x.queries.rows * x.rows_per_token * x.heads / (lists * attention_tile::rows);
  return std::clamp((16 + lists - 1) / lists, Index{1}, (std::max)(Index{1}, blocks));
}

/// Scratch of one worker of the backward pass.
template <class T>
constexpr Index gradient_worker_bytes(Index head_dim) {
  return scratch_bytes<block_row>(attention_tile::rows) + 2 * scratch_bytes<T>(attention_tile::rows) +
         3 * scratch_bytes<T>(attention_tile::rows * head_dim) +
         2 * scratch_bytes<T>(attention_tile::rows * attention_tile::keys);
}

/// d = (d - delta) p in the part, 0 outside, where d may be anything.
template <class T>
void score_gradient(T* d, T const* p, tile_part const& part, Index keys, T delta) {
  std::fill(d, d + part.first, T(0));
  for (Index j = part.first; j < part.last; ++j) d[j] = p[j] == T(0) ? T(0) : (d[j] - delta) * p[j];
  std::fill(d + part.last, d + padded<T>(keys), T(0));
}

/// The gradient of one block of rows: adds to d_k and d_v (of the sequence and head), overwrites its rows of a.d_q.
template <AttentionMask M, class T>
void attention_gradient_block(attention_backward<T> const& a, row_block const& block, key_panels<T> const& all_keys,
                              key_panels<T> const& all_values, view<T> d_k, view<T> d_v, scratch_cutter cut) {
  attention_extents const& x = a.extents;
  Index const n = block.rows, dim = x.head_dim;
  auto* const rows = cut.take<block_row>(attention_tile::rows);
  T* const lse = cut.take<T>(attention_tile::rows);
  T* const delta = cut.take<T>(attention_tile::rows);
  view<T> const q(cut.take<T>(attention_tile::rows * dim), n, dim);
  view<T> const d_o(cut.take<T>(attention_tile::rows * dim), n, dim);
  view<T> const d_q(cut.take<T>(attention_tile::rows * dim), n, dim);
  T* const scores = cut.take<T>(attention_tile::rows * attention_tile::keys);
  T* const d_scores = cut.take<T>(attention_tile::rows * attention_tile::keys);

  T const scale = T(1) / std::sqrt(static_cast<T>(dim));
  bool const drops = a.dropout.on();
  key_range const all = describe_rows<M>(x, block, rows);
  gather_heads<T>(q, a.o, rows, T(1));
  gather_heads<T>(d_o, a.d_o, rows, T(1));
  for (Index i = 0; i < n; ++i) {
    delta[i] = (array_map<T>(q.row(i), dim) * array_map<T>(d_o.row(i), dim)).sum();
    lse[i] = a.lse(rows[i].at.row, rows[i].at.col / dim);
    // A row that sees nothing: any finite shift will do, its scores are all hidden.
    if (lse[i] == -std::numeric_limits<T>::infinity()) lse[i] = T(0);
  }
  gather_heads<T>(q, a.q, rows, scale);
  view<T const> const k = keys_of(x, a.k, block.sequence, block.kv_head);

  Index const first = all.begin / key_panels<T>::width * key_panels<T>::width;
  for (Index begin = first; begin < all.end; begin += attention_tile::keys) {
    Index const end = (std::min)(begin + attention_tile::keys, all.end), keys = end - begin;
    view<T> p(scores, n, keys), d_s(d_scores, n, keys);
    p.row_stride = d_s.row_stride = padded<T>(keys);
    all_keys.multiply(p, q, block.sequence, block.kv_head, begin);
    for (Index i = 0; i < n; ++i) {
      tile_part const part = part_of_tile<T>(rows[i].keys, begin, end);
      hide<M>(p.row(i), part, rows[i].at.position, begin);
      T sums[lanes<T>];
      exponentiate(sums, p.row(i), part, keys, lse[i]);
    }
    auto const drop_rows = [&](T const* from) {
      for (Index i = 0; i < n; ++i) {
        drop(d_s.row(i), from + i * p.row_stride, a.dropout, x, rows[i].at, part_of_tile<T>(rows[i].keys, begin, end),
             keys, begin);
      }
    };
    if (d_v.data) {
      if (drops) drop_rows(scores);
      multiply(d_v.middle_rows(begin, keys), (drops ? d_s : p).transposed(), d_o, true);
    }
    if (!d_k.data && !a.d_q.data) continue;
    all_values.multiply(d_s, d_o, block.sequence, block.kv_head, begin);
    if (drops) drop_rows(d_scores);
    for (Index i = 0; i < n; ++i) {
      score_gradient<T>(d_s.row(i), p.row(i), part_of_tile<T>(rows[i].keys, begin, end), keys, delta[i]);
    }
    if (d_k.data) multiply(d_k.middle_rows(begin, keys), d_s.transposed(), q, true);
    if (a.d_q.data) multiply(d_q, d_s, k.middle_rows(begin, keys), begin > first);
  }

  if (!a.d_q.data) return;
  bool const nothing = all.begin >= all.end;
  for (Index i = 0; i < n; ++i) {
    if (nothing) std::fill_n(d_q.row(i), dim, T(0));
    copy_scaled<T>(&a.d_q(rows[i].at.row, rows[i].at.col), a.d_q.col_stride, d_q.row(i), 1, dim, scale);
  }
}

template <class T>
void clear(view<T> m) {
  for (Index i = 0; i < m.rows; ++i)
    for (Index j = 0; j < m.cols; ++j) m(i, j) = T(0);
}

/// sum += the matrices that lie behind each other at `parts`, in order; rows [first, first + n) only.
template <class T>
void add_parts(view<T> sum, T const* parts, Index count, Index first, Index n) {
  for (Index c = 0; c < count; ++c)
    for (Index i = first; i < first + n; ++i) {
      T const* const from = parts + (c * sum.rows + i) * sum.cols;
      for (Index j = 0; j < sum.cols; ++j) sum(i, j) += from[j];
    }
}

}  // namespace detail

/// Scratch that attention_gradient needs, in bytes: tiles per worker and, when there are few sequences and heads, up to
/// 15 copies of d_k and d_v.
template <class T>
[[nodiscard]] Index attention_gradient_scratch_bytes(attention_extents const& x, Index concurrency) {
  Index const copies = detail::gradient_parts(x) - 1;
  return scratch_alignment + concurrency * detail::gradient_worker_bytes<T>(x.head_dim) +
         2 * scratch_bytes<T>(detail::key_panels<T>::size(x)) +
         2 * scratch_bytes<T>(copies * x.keys.rows * x.kv_heads * x.head_dim);
}

/// Overwrites d_q, d_k and d_v; one whose data is null is not computed. Rows that see nothing and keys that nobody sees
/// get 0.
template <AttentionMask M, Executor E, class T>
void attention_gradient(E& executor, attention_backward<T> const& a, std::span<std::byte> scratch) {
  static_assert(std::is_same_v<T, wide_t<T>>, "headmix: the CPU's attention computes in the type that it stores");
  attention_extents const& x = a.extents;
  if (x.head_dim == 0) return;
  scratch_cutter cut(scratch);
  Index const parts = detail::gradient_parts(x), size = x.keys.rows * x.kv_heads * x.head_dim;
  detail::key_panels<T> const keys(x, cut.take<T>(detail::key_panels<T>::size(x)));
  detail::key_panels<T> const values(x, cut.take<T>(detail::key_panels<T>::size(x)));
  keys.pack(executor, a.k);
  if (a.d_k.data || a.d_q.data) values.pack(executor, a.v);
  T* const part_k = cut.take<T>((parts - 1) * size);
  T* const part_v = cut.take<T>((parts - 1) * size);
  std::byte* const begin = cut.position();
  Index const bytes = detail::gradient_worker_bytes<T>(x.head_dim);

  Index const tasks = x.queries.count * x.kv_heads * parts;
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    Index const i = tasks - 1 - task;  // the last rows of a causal sequence see the most keys and go first
    Index const part = i % parts, kv_head = i / parts % x.kv_heads, sequence = i / parts / x.kv_heads;
    auto const target = [&](view<T> whole, T* copies) {
      if (!whole.data) return view<T>(nullptr, 0, 0);
      if (part > 0) whole = view<T>(copies + (part - 1) * size, x.keys.rows, x.kv_heads * x.head_dim);
      view<T> const own = detail::keys_of(x, whole, sequence, kv_head);
      detail::clear(own);
      return own;
    };
    view<T> const d_k = target(a.d_k, part_k), d_v = target(a.d_v, part_v);
    Index const blocks = detail::row_blocks(x, sequence), length = x.list_length(sequence);
    for (Index b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b) {
      Index const first = b * attention_tile::rows, rows = (std::min)(attention_tile::rows, length - first);
      detail::attention_gradient_block<M, T>(a, {sequence, kv_head, first, rows}, keys, values, d_k, d_v,
                                             scratch_cutter(begin + worker * bytes));
    }
  });
  if (parts == 1) return;
  Index const slice = 64;
  executor.parallel_for((x.keys.rows + slice - 1) / slice, [&](Index t) {
    Index const first = t * slice, n = (std::min)(slice, x.keys.rows - first);
    if (a.d_k.data) detail::add_parts<T>(a.d_k, part_k, parts - 1, first, n);
    if (a.d_v.data) detail::add_parts<T>(a.d_v, part_v, parts - 1, first, n);
  });
}

}  // namespace headmix::cpu
