#pragma once
// SPDX-License-Identifier: MIT
// Sums of outer products, a matrix for each expert: the gradients of products with experts by their weights.

#include <algorithm>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/expert.hpp"

namespace headmix::cpu {

namespace detail {

/// What a task of grouped_outer gathers at once: some slots, their rows of x for as many rows of dw, and those of dy in
/// panels of columns. The rows of x go to strips where more than one panel uses them.
struct outer_block {
  static constexpr Index slots = 256;
  /// Rows of a tile of dw.
  [[nodiscard]] static constexpr Index rows(Index total) { return (std::min)(total, task_shape{}.rows); }
  /// Elements from row to row of what is gathered of x without strips: an odd number of cache lines, so that they do
  /// not share places of the cache.
  template <class T>
  [[nodiscard]] static constexpr Index row_stride(Index cols) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    return ((cols + line - 1) / line | 1) * line;
  }
  template <class T>
  [[nodiscard]] static constexpr Index left_size(Index total) {
    return (std::max)(left_strips<T>::size(rows(total), slots), slots * row_stride<T>(rows(total)));
  }
  template <class T>
  [[nodiscard]] static constexpr Index worker_bytes(Index total) {
    return scratch_bytes<T>(left_size<T>(total)) + scratch_bytes<T>(slots * task_shape{}.cols);
  }
};

}  // namespace detail

/// Scratch that grouped_outer needs for matrices of so many rows, in bytes.
template <class T>
[[nodiscard]] constexpr Index grouped_outer_scratch_bytes(Index rows, Index concurrency) {
  return scratch_alignment + concurrency * detail::outer_block::worker_bytes<T>(rows);
}

namespace detail {

/// Outer products where the experts share rows of x, one of which belongs to slots_per_row slots. Every task makes some
/// rows of the matrices of some experts, and packs those columns of x once for all of them.
template <Executor E, class T>
void grouped_outer_of_shared_rows(E& executor, view<T> dw, view<T const> x, view<T const> dy, view<Int const> perm,
                                  view<Int const> offsets, Index slots_per_row, bool accumulate,
                                  std::span<std::byte> scratch) {
  constexpr Index strip = register_block<T>::rows, most_rows = 22 * strip, most_cols = task_shape{}.cols;
  Index const tiles = (dw.rows + most_rows - 1) / most_rows;
  Index const rows = (dw.rows + tiles * strip - 1) / (tiles * strip) * strip;
  Index const groups = (std::min)(dw.count, (8 + tiles - 1) / tiles);
  scratch_cutter const begin(scratch);
  for_each_task(executor, tiles * groups, [&](Index task, Index worker) {
    Index const i = task / groups * rows, m = (std::min)(rows, dw.rows - i), group = task % groups;
    if (m <= 0) return;
    Index const first_expert = dw.count * group / groups, last_expert = dw.count * (group + 1) / groups;
    scratch_cutter cut(begin.position() + worker * outer_block::worker_bytes<T>(dw.rows));
    T* const left_data = cut.take<T>(outer_block::left_size<T>(dw.rows));
    T* const right_data = cut.take<T>(outer_block::slots * most_cols);
    Int columns[outer_block::slots];
    for (Index first = 0; first < x.rows; first += outer_block::slots) {
      Index const depth = (std::min)(outer_block::slots, x.rows - first);
      pack_strips<T>(left_data, m, depth, 1, [&](Index k) { return &x(first + k, i); });
      left_strips<T> const strips{left_data, left_strips<T>::stride_of(depth)};
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
          }
          for (Index j = 0; j < dw.cols; j += register_block<T>::cols) {
            Index const cols = (std::min)(register_block<T>::cols, dw.cols - j);
            gather_panels<T>(right_data, outer_block::slots, dy.middle_cols(j, cols), slot, 1, n, 1);
            view<T const> const right(right_data, n, cols);
            strided_rows<T> const to{&dw[e](i, j), dw.row_stride};
            bool const add = accumulate || slot != list;
            if (all) {
              multiply_panels<T>(m, to, strips, right, add);
            } else {
              left_strips<T, Int const*> const some{strips.data, strips.stride, columns};
              multiply_panels<T>(m, to, some, right, add);
            }
          }
        }
      }
    }
    for (Index e = first_expert; e < last_expert; ++e)
      if (!accumulate && offsets(0, e) == offsets(0, e + 1)) clear(dw[e].middle_rows(i, m));
  });
}

}  // namespace detail

/// dw[e] = sum over the slots s of expert e, ascending, of x.row(s / x_slots)^T dy.row(s / dy_slots), or += with
/// `accumulate`. An expert without slots gets 0, or keeps what it has.
template <Executor E, class T>
void grouped_outer(E& executor, view<T> dw, view<std::type_identity_t<T const>> x,
                   view<std::type_identity_t<T const>> dy, view<Int const> perm, view<Int const> offsets, Index x_slots,
                   Index dy_slots, bool accumulate, std::span<std::byte> scratch) {
  using gathered = detail::outer_block;
  if (dw.size() == 0) return;
  // Where rows choose many of the experts, those share what is packed.
  if (dy_slots == 1 && x_slots > 1 && 2 * x_slots >= dw.count && x.col_stride == 1 && dw.col_stride == 1)
    return detail::grouped_outer_of_shared_rows<E, T>(executor, dw, x, dy, perm, offsets, x_slots, accumulate, scratch);
  task_shape shape = task_tiles(dw.rows, dw.cols);
  if (dw.count >= 4) shape = task_shape{};
  Index const across = (dw.cols + shape.cols - 1) / shape.cols;
  Index const tiles = (dw.rows + shape.rows - 1) / shape.rows * across;
  scratch_cutter const begin(scratch);
  Index const bytes = gathered::worker_bytes<T>(dw.rows);
  for_each_task(executor, dw.count * tiles, [&](Index task, Index worker) {
    Index const e = task / tiles, i = task % tiles / across * shape.rows, j = task % across * shape.cols;
    Index const m = (std::min)(shape.rows, dw.rows - i), n = (std::min)(shape.cols, dw.cols - j);
    view<T> const result = block(dw[e], i, j, m, n);
    scratch_cutter cut(begin.position() + worker * bytes);
    T* const left_data = cut.take<T>(gathered::left_size<T>(dw.rows));
    T* const right_data = cut.take<T>(gathered::slots * task_shape{}.cols);
    bool const in_strips = result.col_stride == 1 && n > register_block<T>::cols;
    bool add = accumulate;
    for (Index first = offsets(0, e), end = offsets(0, e + 1); first < end; first += gathered::slots) {
      Index const depth = (std::min)(gathered::slots, end - first);
      Int const* const slots = &perm(0, first);
      view<T> left(left_data, depth, m);
      left.row_stride = gathered::row_stride<T>(m);
      if (in_strips) {
        detail::pack_strips<T>(left_data, m, depth, x.col_stride,
                               [&](Index k) { return &x(detail::row_of(slots[k * perm.col_stride], x_slots), i); });
      } else {
        detail::gather<T>(left, x, slots, perm.col_stride, x_slots, i);
      }
      detail::gather_panels<T>(right_data, gathered::slots, dy.middle_cols(j, n), slots, perm.col_stride, depth,
                               dy_slots);
      for (Index c = 0; c < n; c += register_block<T>::cols) {
        view<T> const right(right_data + c * gathered::slots, depth, (std::min)(register_block<T>::cols, n - c));
        view<T> const to = result.middle_cols(c, right.cols);
        if (in_strips) {
          detail::left_strips<T> const strips{left_data, detail::left_strips<T>::stride_of(depth)};
          detail::multiply_panels<T>(m, detail::strided_rows<T>{to.data, to.row_stride}, strips, right, add);
        } else {
          multiply(to, left.transposed(), right, add);
        }
      }
      add = true;
    }
    if (!add) multiply(result, view<T const>(nullptr, m, 0), view<T const>(nullptr, 0, n), false);
  });
}

}  // namespace headmix::cpu
