#pragma once
// SPDX-License-Identifier: MIT
// Attention in blocks of query rows against tiles of keys with an online softmax (Milakov and Gimelshein 2018, Dao et
// al. 2022). Scratch is a few tiles per worker; tiles that are masked as a whole cost nothing.

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/attention/pairs.hpp"
#include "headmix/backend/cpu/attention/softmax.hpp"
#include "headmix/backend/cpu/parallel.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// to = from * scale for n elements of any strides, which may be narrower than T.
template <class T, class To, class From>
void copy_scaled(To* to, Index to_stride, From const* from, Index from_stride, Index n, T scale) {
  if (to_stride == 1 && from_stride == 1) {
    for (Index j = 0; j < n; ++j) to[j] = static_cast<To>(static_cast<T>(from[j]) * scale);
  } else {
    for (Index j = 0; j < n; ++j) to[j * to_stride] = static_cast<To>(static_cast<T>(from[j * from_stride]) * scale);
  }
}

/// to = the heads of the block's rows, row by row, times `scale`.
template <class T, class To, class S>
void gather_heads(view<To> to, view<S const> from, block_row const* rows, T scale) {
  constexpr Index distance = tuning::head_prefetch, line = 64 / static_cast<Index>(sizeof(S));
  for (Index i = 0; i < to.rows; ++i) {
    if (i + distance < to.rows && from.col_stride == 1) {
      S const* const next = &from(rows[i + distance].at.row, rows[i + distance].at.col);
      for (Index j = 0; j < to.cols; j += line) __builtin_prefetch(next + j);
    }
    copy_scaled<T>(to.row(i), 1, &from(rows[i].at.row, rows[i].at.col), from.col_stride, to.cols, scale);
  }
}

/// The steps of a softmax as work between products. Null for none.
template <class Softmax>
struct softmax_between {
  Softmax* softmax;
  prefetch_request<float> step() const {
    if (softmax) softmax->step();
    return {};
  }
};

/// o and the log-sum-exp of a block of rows.
/// @param exactly  whether each row reads only the values that it sees. Without, a value that is not finite times a
///                 probability of 0 makes NaN of rows that do not see it; such a block is computed again, exactly.
template <AttentionMask M, class Operands, class S, class T, class Map>
void attention_block(attention_forward<S, Map> const& a, row_block const& block, typename Operands::keys const& keys,
                     typename Operands::values const& values, stored_probabilities<T> const& stored, scratch_cutter cut,
                     bool exactly = false) {
  using number = typename Operands::number;
  using softmax = tile_softmax<M, number, S, T, Map>;
  scratch_cutter const whole = cut;
  constexpr T masked = -std::numeric_limits<T>::infinity();
  attention_extents const& x = a.extents;
  Index const n = block.rows, dim = x.head_dim, kv_head = x.kv_head_of(block.list);
  auto* const rows = cut.take<block_row>(attention_tile::rows);
  T* const row_max = cut.take<T>(attention_tile::rows);
  T* const row_sum = cut.take<T>(attention_tile::rows);
  T* const tile_fold = cut.take<T>(attention_tile::rows);
  T* const row_lanes = cut.take<T>(attention_tile::rows * lanes<T>);
  T* const fold_scratch = cut.take<T>(attention_tile::rows * lanes<T>);
  view<number> const q(cut.take<number>(attention_tile::rows * dim), n, dim);
  Index const o_row = value_panels<T>::padded_dim(x);
  view<T> const o(cut.take<T>(attention_tile::rows * o_row), n, o_row);
  T* const scores = cut.take<T>(attention_tile::rows * attention_tile::keys);

  bool const stores = stored.on();
  Index const first_row = stores ? x.list_begin(block.sequence, block.list) + block.first : 0;
  key_range const all = describe_rows<M>(x, block, rows);
  gather_heads<T>(q, a.q, rows, std::is_same_v<number, T> ? static_cast<T>(a.scores.scale) : T(1));
  if (all.begin >= all.end) clear(o);
  std::fill_n(row_max, n, masked);
  std::fill_n(row_sum, n, T(0));
  softmax_rows<T> const block_rows{{rows, n}, row_max, row_sum, tile_fold, row_lanes, fold_scratch, o};

  // With tile registers the rows form a pipeline of parts: while part p has its exponentials, keys are multiplied for
  // part p + 1 and values for part p - 1.
  bool const overlaps = Operands::overlaps();
  Index const each = overlaps ? tile_side : (std::max)(n, Index{1}), parts = (n + each - 1) / each;
  auto const part_of = [n, each](auto const& m, Index p) {
    return m.middle_rows(p * each, (std::min)(each, n - p * each));
  };
  auto const rows_of = [&](Index p) { return block_rows.part(p * each, (std::min)(each, n - p * each)); };
  Index const step = stores ? attention_tile::keys : key_panels<T>::width, first = all.begin / step * step;
  for (Index begin = first; begin < all.end; begin += attention_tile::keys) {
    Index const end = (std::min)(begin + attention_tile::keys, all.end);
    view<T> own(scores, n, end - begin);
    own.row_stride = padded<T>(end - begin);
    view<T> const tile = stores ? stored.part(first_row, n, begin, end) : own;
    view<number> const weights = in_place<number>(a.dropout.on() ? own : tile);
    for (Index p = 0; p < parts + 2; ++p) {
      std::optional<softmax> probabilities;
      if (p >= 1 && p <= parts)
        probabilities.emplace(a, rows_of(p - 1), part_of(tile, p - 1), part_of(own, p - 1), begin, stored,
                              first_row + (p - 1) * each);
      softmax_between<softmax> const between{overlaps && probabilities ? &*probabilities : nullptr};
      if (p < parts)
        keys.multiply(part_of(tile, p), part_of(q, p), rows_of(p).visible, block.sequence, kv_head, begin, between);
      if (p >= 2) {
        softmax_rows<T> const done = rows_of(p - 2);
        if (exactly) {
          values.template multiply_visible<M>(done.o, part_of(weights, p - 2), done.visible, block.sequence, kv_head,
                                              begin, begin > first);
        } else {
          values.multiply(done.o, part_of(weights, p - 2), done.visible, block.sequence, kv_head, begin, begin > first,
                          between);
        }
      }
      if (probabilities) probabilities->finish();
    }
  }

  if (!exactly && !all_finite(o.data, n * o_row)) {
    for (Index i = 0; i < n; ++i) {
      if (row_sum[i] > T(0) && !all_finite(o.row(i), dim))
        return attention_block<M, Operands>(a, block, keys, values, stored, whole, true);
    }
  }
  array_map<T>(tile_fold, n) = array_map<T>(row_sum, n).log() + array_map<T>(row_max, n);
  for (Index i = 0; i < n; ++i) {
    bool const sees_none = row_sum[i] == T(0);
    if (sees_none) std::fill_n(o.row(i), dim, T(0));
    copy_scaled<T>(&a.o(rows[i].at.row, rows[i].at.col), a.o.col_stride, o.row(i), 1, dim,
                   sees_none ? T(0) : T(1) / row_sum[i]);
    if (a.lse.data) a.lse(rows[i].at.row, x.lse_col(rows[i].at)) = sees_none ? masked : tile_fold[i];
  }
}

/// Scratch of a worker of the forward pass, in bytes.
template <class T>
constexpr Index attention_worker_bytes(Index head_dim) {
  return scratch_bytes<block_row>(attention_tile::rows) + 3 * scratch_bytes<T>(attention_tile::rows) +
         2 * scratch_bytes<T>(attention_tile::rows * lanes<T>) + scratch_bytes<T>(attention_tile::rows * head_dim) +
         scratch_bytes<T>(attention_tile::rows * (head_dim + lanes<T>)) +
         scratch_bytes<T>(attention_tile::rows * attention_tile::keys);
}

/// f(row) for the rows of q in no list: those of slots that chose no head.
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
template <ProductPrecision Products, class S, class Map>
[[nodiscard]] Index attention_scratch_bytes(Products, attention_forward<S, Map> const& a, Index concurrency) {
  using T = accumulator_t<S>;
  attention_extents const& extents = a.extents;
  return detail::with_operands<S, Products>([&]<class Operands>(Operands) {
    using element = typename Operands::element;
    return (scratch_begins + scratch_bytes<Index>(detail::block_table::size(extents)) +
            scratch_bytes<element>(Operands::keys::size(extents)) +
            scratch_bytes<element>(Operands::values::size(extents)) +
            checked(concurrency) * detail::attention_worker_bytes<T>(extents.head_dim))
        .value;
  });
}

/// Columns of a.probabilities for the forward pass to store them. 0 where the gradient needs the scores, and for
/// scalars narrower than the accumulator.
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
  // The last blocks of a causal list see the most keys: they go first, so that threads end at about the same time.
  for_each_task(executor, tasks, [&](Index task, Index worker) {
    [[maybe_unused]] typename Operands::in_use const in_use;
    attention_block<M, Operands>(a, blocks[tasks - 1 - task], keys, values, stored,
                                 scratch_cutter(begin.position() + worker * bytes));
  });
}

}  // namespace detail

/// o = softmax(scores that M does not mask) v, and the log-sum-exp of each row unless a.lse.data is null. A row that
/// sees no key or is in no list gets o = 0 and a log-sum-exp of minus infinity.
template <AttentionMask M, ProductPrecision Products, class S, class Map>
void attention(mask<M>, Products, executor_ref executor, attention_forward<S, Map> const& a,
               std::span<std::byte> scratch) {
  detail::with_operands<S, Products>(
      [&]<class Operands>(Operands) { detail::attention_with<M, Operands>(executor, a, scratch); });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
