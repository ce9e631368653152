#pragma once
// SPDX-License-Identifier: MIT
// The gradient of attention. Probabilities are recomputed tile by tile from the log-sum-exp, so no memory of queries x
// keys is needed, unless the forward pass stored them. The blocks of rows that read a key/value head of a sequence are
// cut into parts of about equal work; each part sums its own d_k and d_v, and the parts are added in order, so results
// are bitwise equal on any executor. A tile takes five products; two passes, by rows and by keys, would take seven.

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cpu/attention/gradient_rows.hpp"
#include "headmix/backend/cpu/attention/parts.hpp"
#include "headmix/backend/cpu/rows/map_reduce.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// Elements of d_k, or of d_v, of one head and the longest sequence, where they are summed in the worker's scratch: for
/// several heads side by side, whose distant rows share few cache sets, and for other strides. 0 where they are summed
/// in place.
template <class S, class Map>
Index gradient_sum_size(attention_backward<S, Map> const& a) {
  attention_extents const& x = a.extents;
  if (x.kv_heads == 1 && (widens<S> || (a.d_k.col_stride == 1 && a.d_v.col_stride == 1))) return 0;
  checked const longest = x.keys.offsets || x.keys.count == 0 ? x.keys.rows : x.keys.rows / x.keys.count;
  return (longest * x.head_dim).value;
}

/// Elements of d_k, or of d_v, that are summed in scratch, where S is narrower than the accumulator.
template <class S>
constexpr Index widened_gradient_size(attention_extents const& x) {
  return widens<S> ? (checked(x.keys.rows) * x.kv_heads * x.head_dim).value : 0;
}

/// sum = or += tile^T rows for the keys [begin, end) and the rows that see them. Whole vectors of `rows` are read.
template <class T>
void add_by_keys(view<T> sum, view<T> tile, view<T> rows, tile_rows const& visible_rows, Index begin, Index end,
                 bool accumulate) {
  visible_rows.each_key_stretch(begin, end, key_panels<T>::width, [&](tile_rows::span part, Index first, Index last) {
    Index const n = part.last - part.first;
    if (n == 0 && !accumulate) clear(sum.middle_rows(first, last - first));
    if (n == 0) return;
    strided_a<T> const a{cpu_kernels::block(tile, part.first, first - begin, n, last - first).transposed()};
    for (Index j = 0, cols; j < sum.cols; j += cols) {
      int const vectors = panel_vectors<T>(sum.cols - j);
      cols = (std::min)(Index{vectors * register_block<T>::lanes}, sum.cols - j);
      multiply_panel<T>(last - first, cols, vectors, 0, n, a, rows.row(part.first) + j, rows.row_stride,
                        strided_rows<T>{sum.row(first) + j, sum.row_stride}, accumulate);
    }
  });
}

/// sum = or += tile^T rows in pairs of rows: the tile of `pairs`, and `rows`, its q or d_o.
inline void add_by_keys(view<float> sum, block_pairs const& pairs, pair* rows, tile_rows const& visible_rows,
                        Index begin, Index end, bool accumulate) {
  visible_rows.each_key_stretch(begin, end, key_pairs::width, [&](tile_rows::span part, Index first, Index last) {
    if (part.first == part.last) {
      if (!accumulate) clear(sum.middle_rows(first, last - first));
      return;
    }
    // Whole pairs: a row beside the span does not see the keys and has zeros in the tile.
    Index const first_pair = part.first / 2, depth = (part.last + 1) / 2 - first_pair, stride = block_pairs::tile_row;
    packed_pairs_a const a{pairs.tile + first_pair * stride + first - begin, stride};
    each_value_panel<float>(sum.cols, [&](Index j, int vectors, Index width) {
      multiply_pair_columns(vectors, last - first, (std::min)(width, sum.cols - j), 0, 2 * depth, a,
                            block_pairs::panel(rows, j) + first_pair * width, width, accumulate,
                            strided_rows<float>{sum.row(first) + j, sum.row_stride});
    });
  });
}

/// sum = or += tile^T rows, key by key, by the rows that see it: slow, and a row that is not finite reaches no other
/// key.
template <AttentionMask M, class T>
void add_visible_by_keys(view<T> sum, view<T> tile, view<T> rows, tile_rows const& visible_rows, Index begin, Index end,
                         bool accumulate) {
  if (!accumulate) clear(sum.middle_rows(begin, end - begin));
  for (Index i = 0; i < visible_rows.count; ++i) {
    visible_rows.template each_key<M>(i, begin, end, [&](Index s) {
      T const by = tile(i, s - begin);
      for (Index c = 0; c < sum.cols; ++c) sum(s, c) += by * rows(i, c);
    });
  }
}

/// Keys and values in panels of columns, and keys in panels of rows.
template <class Operands>
struct gradient_panels {
  typename Operands::keys keys, values;
  typename Operands::values key_rows;
};

/// The gradient of a block of rows: overwrites or adds to d_k and d_v of the sequence and head, overwrites its rows of
/// a.d_q.
/// @param exactly  whether each row of d_q reads only the keys that it sees: see attention_block
template <AttentionMask M, class Operands, class S, class T, class Map>
void attention_gradient_block(attention_backward<S, Map> const& a, row_block const& block,
                              gradient_panels<Operands> const& panels, stored_probabilities<T const> const& stored,
                              view<T> d_k, view<T> d_v, bool accumulate, scratch_cutter cut, bool exactly = false) {
  scratch_cutter const whole = cut;
  attention_extents const& x = a.extents;
  Index const n = block.rows, dim = x.head_dim, b = block.sequence, kv_head = x.kv_head_of(block.list);
  gradient_rows<M, S, Map, Operands> r(a, cut);
  using number = typename Operands::number;
  T const scale = static_cast<T>(a.scores.scale);
  Index const d_q_row = value_panels<T>::padded_dim(x);
  view<T> const d_q(cut.take<T>(gradient_tile::rows * d_q_row), n, d_q_row);

  bool const drops = a.dropout.on();
  key_range const all = describe_rows<M>(x, block, r.rows);
  r.gather(n);
  tile_rows const visible_rows = r.visible_rows();
  if (all.begin >= all.end) clear(d_q);

  Index const step = stored.on() ? gradient_tile::keys : key_panels<T>::width, first = all.begin / step * step;
  for (view<T> const& sum : {d_k, d_v}) {
    if (accumulate || !sum.data) continue;
    clear(sum.middle_rows(0, first));
    clear(sum.middle_rows(all.end, sum.rows - all.end));
  }
  for (Index begin = first; begin < all.end; begin += gradient_tile::keys) {
    Index const end = (std::min)(begin + gradient_tile::keys, all.end);
    view<T> const p = r.tile(r.scores, end - begin), d_s = r.tile(r.d_scores, end - begin);
    view<T> p_slopes = p;
    auto const add = [&](view<T> sum, view<T> tile, view<T> by, [[maybe_unused]] pair* pairs,
                         [[maybe_unused]] T times) {
      if constexpr (r.rounds) {
        if (r.finite) {
          r.pairs.round_tile(tile, times);
          return add_by_keys(sum, r.pairs, pairs, visible_rows, begin, end, accumulate);
        }
      } else {
        if (r.finite) return add_by_keys<T>(sum, tile, by, visible_rows, begin, end, accumulate);
      }
      add_visible_by_keys<M>(sum, tile, by, visible_rows, begin, end, accumulate);
    };
    if (stored.on()) {
      r.read(p, stored, x.list_begin(b, block.list) + block.first, begin, end);
    } else {
      p_slopes = r.probabilities_and_slopes(p, panels.keys, b, kv_head, begin, end);
    }
    if (d_v.data) {
      if (drops) r.drop_tile(d_s, p, begin, end);
      add(d_v, drops ? d_s : p, r.d_o, r.pairs.d_o, T(1));
    }
    if (!d_k.data && !a.d_q.data) continue;
    r.score_gradients(d_s, p_slopes, panels.values, b, kv_head, begin, end);
    if (d_k.data) add(d_k, d_s, r.q, r.pairs.q, scale);
    if (!a.d_q.data) continue;
    view<number> const factor = in_place<number>(d_s);
    if constexpr (r.rounds)
      for (Index i = 0; i < n; ++i) round_row(factor.row(i), d_s.row(i), padded<T>(end - begin));
    if (exactly) {
      panels.key_rows.template multiply_visible<M>(d_q, factor, visible_rows, b, kv_head, begin, begin > first);
    } else {
      panels.key_rows.multiply(d_q, factor, visible_rows, b, kv_head, begin, begin > first);
    }
  }

  if (!a.d_q.data) return;
  if (!exactly && !all_finite(d_q.data, n * d_q_row)) {
    view<T> const done(nullptr, 0, 0);
    return attention_gradient_block<M, Operands>(a, block, panels, stored, done, done, accumulate, whole, true);
  }
  for (Index i = 0; i < n; ++i) {
    copy_scaled<T>(&a.d_q(r.rows[i].at.row, r.rows[i].at.col), a.d_q.col_stride, d_q.row(i), 1, dim, scale);
  }
}

/// sum += the matrix at `from`, rows [first, first + n).
template <class T>
void add_copy(view<T> sum, T const* from, Index first, Index n) {
  for (Index i = first; i < first + n; ++i)
    for (Index j = 0; j < sum.cols; ++j) sum(i, j) += from[i * sum.cols + j];
}

/// Adds the copies of the further parts of each head to the sums of its first part.
template <class T>
void add_copies(executor_ref executor, attention_extents const& x, gradient_parts const& parts, view<T> d_k,
                T const* copies_k, view<T> d_v, T const* copies_v) {
  if (parts.count() == x.queries.count * x.kv_heads) return;
  // A task adds the copies of some rows of one head, in order.
  Index longest = 0;
  for (Index b = 0; b < x.keys.count; ++b) longest = (std::max)(longest, x.keys.length(b));
  Index const slice = 64, slices = (longest + slice - 1) / slice;
  executor.parallel_for(parts.count() * slices, [&](Index t) {
    Index const i = t / slices, first = t % slices * slice;
    gradient_parts::part const& part = parts[i];
    Index const n = (std::min)(slice, x.keys.length(part.sequence) - first);
    if (part.copy >= 0 || n <= 0) return;
    for (Index c = i + 1; c < parts.count() && parts[c].copy >= 0; ++c) {
      auto const add = [&](view<T> whole, T const* copies) {
        if (!whole.data) return;
        add_copy<T>(keys_of(x, whole, part.sequence, part.kv_head), copies + parts[c].copy, first, n);
      };
      add(d_k, copies_k);
      add(d_v, copies_v);
    }
  });
}

}  // namespace detail

/// Scratch that attention_gradient needs, in bytes: tiles per worker and, for few sequences and heads or uneven work,
/// up to 16 copies of d_k and d_v of a head, or one copy for one worker.
template <ProductPrecision Products, class S, class Map>
[[nodiscard]] Index attention_gradient_scratch_bytes(Products, attention_backward<S, Map> const& a, Index concurrency) {
  using T = accumulator_t<S>;
  attention_extents const& x = a.extents;
  return detail::with_operands<S, Products>([&]<class Operands>(Operands) {
    using element = typename Operands::element;
    checked const two = 2;
    return (scratch_begins +
            checked(concurrency) * (two * scratch_bytes<T>(detail::gradient_sum_size(a)) +
                                    detail::gradient_worker_bytes<Operands, T, Map>(x.head_dim)) +
            scratch_bytes<detail::gradient_parts::part>(detail::gradient_parts::size(x)) +
            scratch_bytes<Index>(detail::gradient_parts::size(x)) +
            two * scratch_bytes<element>(Operands::keys::size(x)) + scratch_bytes<element>(Operands::values::size(x)) +
            two * scratch_bytes<T>(detail::gradient_parts::copies_memory(a, concurrency)) +
            two * scratch_bytes<T>(detail::widened_gradient_size<S>(x)))
        .value;
  });
}

namespace detail {

template <AttentionMask M, class Operands, class S, class Map>
void attention_gradient_with(executor_ref executor, attention_backward<S, Map> const& a, std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  using element = typename Operands::element;
  attention_extents const& x = a.extents;
  if (x.head_dim == 0) return;
  scratch_cutter cut(scratch);
  if (a.d_q.data) for_each_unrouted_row(executor, x, [&](Index row) { clear_row(a.d_q, row, x.head_dim); });
  gradient_parts parts(x, cut.take<gradient_parts::part>(gradient_parts::size(x)));
  Index* const order = cut.take<Index>(gradient_parts::size(x));
  parts.template cut<M>(gradient_parts::copies(a), order);
  bool const alone = executor.concurrency() == 1;
  gradient_panels<Operands> const panels{{x, cut.take<element>(Operands::keys::size(x))},
                                         {x, cut.take<element>(Operands::keys::size(x))},
                                         {x, cut.take<element>(Operands::values::size(x))}};
  view<T const> probabilities;
  if constexpr (!widens<S>) probabilities = a.probabilities;
  stored_probabilities<T const> const stored(x, probabilities);
  if (!stored.on()) panels.keys.pack(executor, a.k);
  if (a.d_k.data || a.d_q.data) panels.values.pack(executor, a.v);
  if (a.d_q.data) panels.key_rows.pack(executor, a.k);
  Index const room = gradient_parts::copies_memory(a, executor.concurrency());
  T* const copies_k = cut.take<T>(room);
  T* const copies_v = cut.take<T>(room);
  // The sums of d_k and d_v: in place, or in scratch for narrow numbers, which are rounded at the end.
  view<T> d_k_sum, d_v_sum;
  if constexpr (widens<S>) {
    auto const sum_of = [&](view<S> d) {
      T* const memory = cut.take<T>(widened_gradient_size<S>(x));
      return view<T>(d.data ? memory : nullptr, d.rows, d.cols);
    };
    d_k_sum = sum_of(a.d_k);
    d_v_sum = sum_of(a.d_v);
  } else {
    d_k_sum = a.d_k;
    d_v_sum = a.d_v;
  }
  std::byte* const begin = cut.position();
  Index const sum_size = gradient_sum_size(a);
  Index const bytes = gradient_worker_bytes<Operands, T, Map>(x.head_dim) + 2 * scratch_bytes<T>(sum_size);

  for_each_task(executor, parts.count(), [&](Index task, Index worker) {
    [[maybe_unused]] typename Operands::in_use const in_use;
    gradient_parts::part const& part = parts[alone ? task : order[task]];
    scratch_cutter own(begin + worker * bytes);
    T* const sum_k = own.take<T>(sum_size);
    T* const sum_v = own.take<T>(sum_size);
    auto const whole = [&](view<T> v) {
      return v.data ? keys_of(x, v, part.sequence, part.kv_head) : view<T>(nullptr, 0, 0);
    };
    // Where a part is summed: in its copy, in place, or in the worker's scratch.
    auto const target = [&](view<T> v, T* copies, T* sum) {
      view<T> to = whole(v);
      if (!to.data) return to;
      if (part.copy >= 0) {
        to = view<T>(copies + (alone ? 0 : part.copy), to.rows, to.cols);
      } else if (sum_size > 0) {
        to = view<T>(sum, to.rows, to.cols);
      }
      return to;
    };
    view<T> const d_k = target(d_k_sum, copies_k, sum_k), d_v = target(d_v_sum, copies_v, sum_v);
    bool accumulate = false;
    parts.each_block(part, [&](row_block const& block) {
      attention_gradient_block<M, Operands>(a, block, panels, stored, d_k, d_v, accumulate,
                                            scratch_cutter(own.position()));
      accumulate = true;
    });
    if (!accumulate) {
      clear(d_k);
      clear(d_v);
    }
    if (part.copy >= 0 && alone) {
      if (d_k.data) add_copy<T>(whole(d_k_sum), copies_k, 0, d_k.rows);
      if (d_v.data) add_copy<T>(whole(d_v_sum), copies_v, 0, d_v.rows);
    }
    if (part.copy >= 0 || sum_size == 0) return;
    auto const put = [](view<T> to, view<T> sum) {
      for (Index i = 0; i < to.rows; ++i) copy_scaled<T>(&to(i, 0), to.col_stride, sum.row(i), 1, to.cols, T(1));
    };
    put(whole(d_k_sum), d_k);
    put(whole(d_v_sum), d_v);
  });
  if (!alone) add_copies(executor, x, parts, d_k_sum, copies_k, d_v_sum, copies_v);
  if constexpr (widens<S>) {
    for_each_range(executor, x.keys.rows, x.kv_heads * x.head_dim, [&](Index first, Index last) {
      for (auto const& [to, sum] : {std::pair(a.d_k, d_k_sum), std::pair(a.d_v, d_v_sum)})
        if (to.data) convert(to.middle_rows(first, last - first), sum.middle_rows(first, last - first));
    });
  }
}

}  // namespace detail

/// Overwrites d_q, d_k and d_v; one whose data is null is not computed. Rows that see no key or are in no list and keys
/// that no row sees get 0.
template <AttentionMask M, ProductPrecision Products, class S, class Map>
void attention_gradient(mask<M>, Products, executor_ref executor, attention_backward<S, Map> const& a,
                        std::span<std::byte> scratch) {
  detail::with_operands<S, Products>(
      [&]<class Operands>(Operands) { detail::attention_gradient_with<M, Operands>(executor, a, scratch); });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
