#pragma once
// SPDX-License-Identifier: MIT
// Sums of outer products, one matrix per expert: the gradients of the weights of experts.

#include <algorithm>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/experts/expert.hpp"
#include "headmix/backend/cpu/products/dot_products.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// The block of a task of grouped_outer: `rows` rows of dw and `slots` slots, whose rows of x are packed as a = x^T and
/// whose rows of dy are packed panel by panel as b.
struct outer_block {
  static constexpr Index slots = tuning::outer_slots, rows = tuning::outer_rows;
  template <class T>
  [[nodiscard]] static constexpr Index packed_a_size(Index dw_rows) {
    return packed_a<T>::size((std::min)(dw_rows, rows), slots);
  }
  template <class T>
  [[nodiscard]] static constexpr Index b_panel_size() {
    return slots * register_block<T>::nr;
  }
  /// Chunks of slots in a part; parts are added in double: see tuning::product_depth.
  static constexpr Index chunks_of_part = tuning::product_depth / slots;
  [[nodiscard]] static constexpr bool ends_part(Index chunk, Index chunks) {
    return (chunk + 1) % chunks_of_part == 0 || chunk + 1 == chunks;
  }
  /// True where an expert may have more slots than a part.
  [[nodiscard]] static constexpr bool is_deep(Index all_slots) { return all_slots > tuning::product_depth; }
  /// Numbers of a task's sums, where dw is narrower or parts are added.
  template <class S>
  [[nodiscard]] static constexpr Index sums_size(Index dw_rows, bool deep) {
    return widens<S> || deep ? (std::min)(dw_rows, rows) * tuning::outer_most_cols : 0;
  }
  [[nodiscard]] static constexpr Index totals_size(Index dw_rows, bool deep) {
    return deep ? (std::min)(dw_rows, rows) * tuning::outer_most_cols : 0;
  }
  template <class S>
  [[nodiscard]] static constexpr Index worker_bytes(Index dw_rows, bool deep) {
    using T = accumulator_t<S>;
    return scratch_bytes<T>(packed_a_size<T>(dw_rows)) + scratch_bytes<T>(b_panel_size<T>()) +
           scratch_bytes<T>(sums_size<S>(dw_rows, deep)) + scratch_bytes<double>(totals_size(dw_rows, deep));
  }
};

}  // namespace detail

/// Scratch that grouped_outer needs for the matrices dw and `slots` slots, in bytes.
template <class S>
[[nodiscard]] constexpr Index grouped_outer_scratch_bytes(view<S> dw, Index slots, Index concurrency) {
  return (scratch_begins +
          checked(concurrency) * detail::outer_block::worker_bytes<S>(dw.rows, detail::outer_block::is_deep(slots)))
      .value;
}

namespace detail {

/// Packs columns [col, col + cols) of n rows, whose elements are `step` apart.
template <class T, class S>
void gather_panel(T* to, S const* const* rows, Index n, Index col, Index cols, Index step) {
  constexpr Index width = register_block<T>::nr, distance = tuning::pack_b_prefetch,
                  line = 64 / static_cast<Index>(sizeof(S));
  for (Index i = 0; i < n; ++i, to += cols) {
    S const* const from = rows[i] + col * step;
    if (i + distance < n && step == 1)
      for (Index c = 0; c < cols; c += line) __builtin_prefetch(rows[i + distance] + col + c);
    if (step == 1 && cols == width) {
      if constexpr (std::is_same_v<S, T>) {
        copy_vectors(to, from, width);
      } else {
        convert_row(to, from, width);
      }
    } else {
      for (Index c = 0; c < cols; ++c) to[c] = static_cast<T>(from[c * step]);
    }
  }
}

/// Prefetches the next panel of dy while one is multiplied.
template <class T>
struct outer_prefetch {
  T const* const* from;
  Index col, width, count;
  Index each;  ///< rows of dy in a step
  Index at = 0;

  prefetch_request<T> step() {
    if (width == 0) return {};
    Index const first = at;
    at = (std::min)(at + each, count);
    return {from + first, col, width, at - first};
  }
};

/// grouped_outer where a row of x belongs to slots_per_row slots: a task computes some rows of the matrices of some
/// experts and packs the columns of x once for all of them.
template <class T>
void grouped_outer_of_shared_rows(executor_ref executor, view<T> dw, view<T const> x, view<T const> dy,
                                  view<Int const> perm, view<Int const> offsets, Index slots_per_row, bool accumulate,
                                  std::span<std::byte> scratch) {
  constexpr Index mr = register_block<T>::mr, most_rows = tuning::shared_outer_rows;
  Index const tiles = (dw.rows + most_rows - 1) / most_rows;
  Index const rows = (dw.rows + tiles * mr - 1) / (tiles * mr) * mr;
  Index const groups = (std::min)(dw.count, (tuning::enough_tasks + tiles - 1) / tiles);
  scratch_cutter const begin(scratch);
  for_each_task(executor, tiles * groups, [&](Index task, Index worker) {
    Index const i = task / groups * rows, m = (std::min)(rows, dw.rows - i), group = task % groups;
    if (m <= 0) return;
    Index const first_expert = dw.count * group / groups, last_expert = dw.count * (group + 1) / groups;
    scratch_cutter cut(begin.position() + worker * outer_block::worker_bytes<T>(dw.rows, false));
    T* const a_data = cut.take<T>(outer_block::packed_a_size<T>(dw.rows));
    T* const b_data = cut.take<T>(outer_block::b_panel_size<T>());
    Int columns[outer_block::slots];
    T const* from[outer_block::slots];
    for (Index first = 0; first < x.rows; first += outer_block::slots) {
      Index const depth = (std::min)(outer_block::slots, x.rows - first);
      pack_a<T>(a_data, m, depth, 1, [&](Index k) { return &x(first + k, i); });
      packed_a<T> const a{a_data, packed_a<T>::stride_of(depth)};
      for (Index e = first_expert; e < last_expert; ++e) {
        Int const *const list = perm.data + offsets(0, e), *const list_end = perm.data + offsets(0, e + 1);
        Int const* slot = std::lower_bound(list, list_end, first * slots_per_row);
        Int const* const last = std::lower_bound(slot, list_end, (first + depth) * slots_per_row);
        for (Index n; slot != last; slot += n) {
          n = (std::min)(outer_block::slots, static_cast<Index>(last - slot));
          bool all = n == depth;
          for (Index k = 0; k < n; ++k) {
            columns[k] = static_cast<Int>(row_of(slot[k], slots_per_row) - first);
            all = all && columns[k] == k;
            from[k] = dy.row(slot[k]);
          }
          for (Index j = 0; j < dw.cols; j += register_block<T>::nr) {
            Index const cols = (std::min)(register_block<T>::nr, dw.cols - j);
            gather_panel<T>(b_data, from, n, j, cols, dy.col_stride);
            view<T const> const b(b_data, n, cols);
            strided_rows<T> const to{&dw[e](i, j), dw.row_stride};
            bool const add = accumulate || slot != list;
            if (all) {
              multiply_panels<T>(m, to, a, b, add);
            } else {
              packed_a<T, Int const*> const listed{a.data, a.stride, columns};
              multiply_panels<T>(m, to, listed, b, add);
            }
          }
        }
      }
    }
    for (Index e = first_expert; e < last_expert; ++e)
      if (!accumulate && offsets(0, e) == offsets(0, e + 1)) clear(dw[e].middle_rows(i, m));
  });
}

/// grouped_outer by dot products: a pair has elements of two successive slots. A task computes some rows and columns of
/// one matrix; sums over several chunks of slots are in the worker's scratch.
template <term X = term::nearest, term Y = term::nearest, class S>
void grouped_outer_by_dots(executor_ref executor, view<S> dw, view<S const> x, view<S const> dy, view<Int const> perm,
                           view<Int const> offsets, Index x_slots, Index dy_slots, bool accumulate,
                           std::span<std::byte> scratch) {
  using gathered = outer_block;
  constexpr Index width = register_block<float>::nr;
  auto const parts = [](Index n, Index each) { return (n + each - 1) / each; };
  Index rows = tuning::pairs_rows, cols = parts(dw.cols, parts(dw.cols, tuning::outer_most_cols));
  auto const few = [&] { return tuning::enough_tasks > dw.count * parts(dw.rows, rows) * parts(dw.cols, cols); };
  while (few() && cols > tuning::outer_least_cols) cols = parts(cols, 2);
  while (few() && rows > tuning::outer_least_rows) rows = parts(rows, 2);
  cols = parts(cols, width) * width;
  Index const down = parts(dw.rows, rows), across = parts(dw.cols, cols), tiles = down * across;
  scratch_cutter const begin(scratch);
  bool const deep = gathered::is_deep((std::max)(x.rows, dy.rows));
  Index const bytes = gathered::worker_bytes<S>(dw.rows, deep);
  for_each_task(executor, dw.count * tiles, [&](Index task, Index worker) {
    Index const e = task / tiles, i = task % tiles / across * rows, j = task % across * cols;
    view<S> const result = block(dw[e], i, j, (std::min)(rows, dw.rows - i), (std::min)(cols, dw.cols - j));
    Index const total = offsets(0, e + 1) - offsets(0, e), chunks = parts(total, gathered::slots);
    if (total == 0) {
      if (!accumulate) clear(result);
      return;
    }
    scratch_cutter cut(begin.position() + worker * bytes);
    pair* const a_pairs = cut.take<pair>(gathered::packed_a_size<float>(dw.rows));
    pair* const b_pairs = cut.take<pair>(gathered::b_panel_size<float>());
    float* const sums = cut.take<float>(gathered::sums_size<S>(dw.rows, deep));
    double* const totals = cut.take<double>(gathered::totals_size(dw.rows, deep));
    bool const in_parts = deep && chunks > gathered::chunks_of_part;
    view<double> const total_of_parts(totals, result.rows, result.cols);
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      Index const first = total * chunk / chunks, depth = total * (chunk + 1) / chunks - first;
      Int const* const slots = &perm(0, offsets(0, e) + first);
      auto const row = [&](Index k, Index each) { return row_of(slots[k * perm.col_stride], each); };
      pack_pairs<X>(a_pairs, result.rows, depth, result.rows, 1, [&](Index k) { return &x(row(k, x_slots), i); });
      for (Index c = 0, part; c < result.cols; c += part) {
        int const vectors = panel_vectors<float>(result.cols - c);
        Index const panel = vectors * register_block<float>::lanes;
        part = (std::min)(panel, result.cols - c);
        pack_pairs<Y>(b_pairs, panel, depth, part, dy.col_stride,
                      [&](Index k) { return &dy(row(k, dy_slots), j + c); });
        strided_rows<S> const to{result.data + c, result.row_stride};
        strided_rows<float> sum{sums + c, result.cols};
        if constexpr (!widens<S>) {
          if (!in_parts) sum = to;
        }
        Index const in_part = chunk % gathered::chunks_of_part;
        constexpr Index chunks_of_tiles = tuning::pairs_depth / gathered::slots;
        multiply_pair_parts(in_parts ? in_part > 0 : chunk > 0, accumulate && !in_parts,
                            !in_parts && chunk + 1 == chunks, to, sum, [&](auto from, auto end) {
                              multiply_pair_panel(vectors, result.rows, part, 0, depth,
                                                  packed_pairs_a{a_pairs, result.rows}, b_pairs, panel, from, end,
                                                  no_prefetch<float>{}, chunk % chunks_of_tiles == 0);
                            });
      }
      if (in_parts && gathered::ends_part(chunk, chunks))
        add_part(total_of_parts, view<float>(sums, result.rows, result.cols), chunk >= gathered::chunks_of_part);
    }
    if (in_parts) put_total(result, total_of_parts, accumulate);
  });
}

}  // namespace detail

/// dw[e] = sum over the slots s of expert e, ascending, of x.row(s / x_slots)^T dy.row(s / dy_slots), or += with
/// `accumulate`. An expert without slots gets 0, or keeps its numbers.
template <ProductPrecision Products, class S>
void grouped_outer(Products, executor_ref executor, view<S> dw, view<std::type_identity_t<S const>> x,
                   view<std::type_identity_t<S const>> dy, view<Int const> perm, view<Int const> offsets, Index x_slots,
                   Index dy_slots, bool accumulate, std::span<std::byte> scratch) {
  using T = accumulator_t<S>;
  // Narrow numbers: a task sums its part of dw in the worker's scratch and rounds it once.
  constexpr bool widens = detail::widens<S>;
  using gathered = detail::outer_block;
  if (dw.size() == 0) return;
  bool const deep = gathered::is_deep((std::max)(x.rows, dy.rows));
  if constexpr (!widens) {
    // Rows that choose many of the experts are packed once for all of them.
    if (!deep && dy_slots == 1 && x_slots > 1 && 2 * x_slots >= dw.count && x.col_stride == 1 && dw.col_stride == 1)
      return detail::grouped_outer_of_shared_rows<T>(executor, dw, x, dy, perm, offsets, x_slots, accumulate, scratch);
  }
  if constexpr (detail::may_multiply_pairs<S>) {
    if (has_dot_products() && dw.col_stride == 1 && x.col_stride == 1)
      return detail::grouped_outer_by_dots(executor, dw, x, dy, perm, offsets, x_slots, dy_slots, accumulate, scratch);
  }
  if constexpr (detail::may_round<S, Products>) {
    if (detail::rounds_products<Products>() && dw.col_stride == 1 && x.col_stride == 1) {
      return detail::each_pass<Products>(accumulate, [&]<detail::term X, detail::term Y>(bool add) {
        detail::grouped_outer_by_dots<X, Y>(executor, dw, x, dy, perm, offsets, x_slots, dy_slots, add, scratch);
      });
    }
  }
  // Tiles of about equal size, small enough for all threads to have work.
  Index rows = gathered::rows, cols = dw.cols;
  auto const parts = [](Index n, Index each) { return (n + each - 1) / each; };
  auto const few = [&](Index n) { return n > dw.count * parts(dw.rows, rows) * parts(dw.cols, cols); };
  if (widens || deep) cols = parts(dw.cols, parts(dw.cols, tuning::outer_most_cols));
  while (few(tuning::enough_outer_tasks) && cols > tuning::outer_most_cols) cols = parts(cols, 2);
  while (few(tuning::enough_tasks) && cols > tuning::outer_least_cols) cols = parts(cols, 2);
  while (few(tuning::enough_tasks) && rows > tuning::outer_least_rows) rows = parts(rows, 2);
  constexpr Index mr = register_block<T>::mr, width = register_block<T>::nr;
  Index const down = parts(dw.rows, rows), across = parts(dw.cols, cols), tiles = down * across;
  rows = parts(dw.rows, down * mr) * mr;
  cols = parts(dw.cols, across * width) * width;
  scratch_cutter const begin(scratch);
  Index const bytes = gathered::worker_bytes<S>(dw.rows, deep);
  for_each_task(executor, dw.count * tiles, [&](Index task, Index worker) {
    Index const e = task / tiles, i = task % tiles / across * rows, j = task % across * cols;
    Index const m = (std::min)(rows, dw.rows - i), n = (std::min)(cols, dw.cols - j);
    if (m <= 0 || n <= 0) return;
    view<S> const part_of_dw = block(dw[e], i, j, m, n);
    scratch_cutter cut(begin.position() + worker * bytes);
    T* const a_data = cut.take<T>(gathered::packed_a_size<T>(dw.rows));
    T* const b_data = cut.take<T>(gathered::b_panel_size<T>());
    Index const total = offsets(0, e + 1) - offsets(0, e), chunks = parts(total, gathered::slots);
    bool const in_parts = deep && chunks > gathered::chunks_of_part, apart = widens || in_parts;
    view<T> result(cut.take<T>(gathered::sums_size<S>(dw.rows, deep)), m, n);
    view<double> const total_of_parts(cut.take<double>(gathered::totals_size(dw.rows, deep)), m, n);
    if constexpr (widens) {
      if (accumulate && !in_parts) detail::convert(result, part_of_dw);
    } else {
      if (!apart) result = part_of_dw;
    }
    if (total == 0 && !accumulate) detail::clear(result);
    S const* from[gathered::slots];
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      Index const first = total * chunk / chunks, depth = total * (chunk + 1) / chunks - first;
      Int const* const slots = &perm(0, offsets(0, e) + first);
      bool const add = in_parts ? chunk % gathered::chunks_of_part > 0 : accumulate || chunk > 0;
      auto const row = [&](Index k, Index each) { return detail::row_of(slots[k * perm.col_stride], each); };
      for (Index k = 0; k < depth; ++k) from[k] = &dy(row(k, dy_slots), j);
      view<T> const gathered_x(a_data, depth, m);
      detail::packed_a<T> const a{a_data, detail::packed_a<T>::stride_of(depth)};
      if (result.col_stride == 1) {
        detail::pack_a<T>(a_data, m, depth, x.col_stride, [&](Index k) { return &x(row(k, x_slots), i); });
      } else {
        detail::gather(gathered_x, x, slots, perm.col_stride, x_slots, i);
      }
      for (Index c = 0, part; c < n; c += part) {
        part = (std::min)(width, n - c);
        detail::gather_panel(b_data, from, depth, c, part, dy.col_stride);
        view<T> const b(b_data, depth, part), to = result.middle_cols(c, part);
        if (result.col_stride != 1) {
          multiply(to, gathered_x.transposed(), b, add);
          continue;
        }
        detail::strided_rows<T> const to_rows{to.data, to.row_stride};
        if constexpr (widens) {
          detail::multiply_panels<T>(m, to_rows, a, b, add);
        } else {
          auto const prefetch_rows = [&](Index, Index, Index) {
            Index const next = c + part, more = dy.col_stride == 1 ? (std::min)(width, n - next) : 0;
            return detail::outer_prefetch<T>{from, next, more, depth, (depth * mr + m - 1) / m};
          };
          detail::multiply_panels<T>(m, to_rows, a, b, add, prefetch_rows);
        }
      }
      if (in_parts && gathered::ends_part(chunk, chunks))
        detail::add_part(total_of_parts, result, chunk >= gathered::chunks_of_part);
    }
    if (in_parts) {
      detail::put_total(part_of_dw, total_of_parts, accumulate);
    } else if constexpr (widens) {
      detail::convert(part_of_dw, result);
    }
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
