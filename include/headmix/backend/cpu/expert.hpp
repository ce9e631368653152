#pragma once
// SPDX-License-Identifier: MIT
// Products with one weight matrix per expert. A slot is one (row, choice) pair, slot = row * slots_per_row + choice;
// the slots of an expert are a list. Products read and write its rows where they lie; only with strides that do not
// allow that, and in outer products, are they gathered into dense blocks.

#include <algorithm>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/gemm.hpp"
#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/weight_panels.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu {

/// Sorts the slots by sequence and expert with a stable counting sort: the slots of group g = sequence * experts +
/// expert are perm[offsets[g]] .. perm[offsets[g + 1] - 1], ascending. Slots whose index is outside of [0, experts), as
/// -1 is, follow behind all groups.
/// perm is [1, rows * k], offsets is [1, sequences * experts + 1], index is [rows, k]; `s` divides its rows.
inline void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) {
  Index const groups = offsets.cols - 1, experts = s.count > 0 ? groups / s.count : 0;
  // offsets(0, g + 1) first counts the slots of group g, is then where they begin, and while the slots are placed
  // moves on to where they end.
  for (Index g = 0; g <= groups; ++g) offsets(0, g) = 0;
  auto const present = [experts](Index e) { return e >= 0 && e < experts; };
  for (Index b = 0; b < s.count; ++b)
    for (Index i = s.begin(b); i < s.end(b); ++i)
      for (Index j = 0; j < index.cols; ++j)
        if (Index const e = index(i, j); present(e)) ++offsets(0, b * experts + e + 1);
  Int begin = 0;
  for (Index g = 1; g <= groups; ++g) {
    Int const count = offsets(0, g);
    offsets(0, g) = begin;
    begin += count;
  }
  Int left_out = begin;
  for (Index b = 0; b < s.count; ++b)
    for (Index i = s.begin(b); i < s.end(b); ++i)
      for (Index j = 0; j < index.cols; ++j) {
        Index const e = index(i, j);
        perm(0, present(e) ? offsets(0, b * experts + e + 1)++ : left_out++) = static_cast<Int>(i * index.cols + j);
      }
}

/// Rows of a gathered block.
inline constexpr Index gather_rows = 96;

/// Scratch that grouped_gemm needs for weights of depth x width, in bytes.
template <class T>
[[nodiscard]] constexpr Index grouped_scratch_bytes(Index depth, Index width, Index concurrency) {
  return scratch_alignment +
         concurrency * (scratch_bytes<T>(gather_rows * depth) + scratch_bytes<T>(gather_rows * width));
}

namespace detail {

/// Slots of one expert that are multiplied by one copy of its weights, at most: fewer when few blocks would leave
/// threads without work.
inline constexpr Index product_rows = 1152;

/// Blocks of at most `size` slots in the list of expert e.
inline Index slot_blocks(view<Int const> offsets, Index e, Index size) {
  return (offsets(0, e + 1) - offsets(0, e) + size - 1) / size;
}

/// The row of a slot, by a short division.
inline Index row_of(Int slot, Index slots_per_row) {
  return static_cast<Index>(static_cast<std::uint32_t>(slot) / static_cast<std::uint32_t>(slots_per_row));
}

template <Executor E, class T>
void set_to_zero(E& executor, view<T> y) {
  Index const block = 1024, rows = y.count * y.rows;
  executor.parallel_for((rows + block - 1) / block, [&](Index t) {
    for (Index i = t * block; i < (std::min)(rows, (t + 1) * block); ++i) clear_row(y, i, y.cols);
  });
}

/// Copies columns [col, col + to.cols) of the rows that belong to to.rows slots.
template <class T>
void gather(view<T> to, view<T const> from, Int const* slots, Index slot_stride, Index slots_per_row, Index col) {
  for (Index i = 0; i < to.rows; ++i) {
    T const* const source = &from(row_of(slots[i * slot_stride], slots_per_row), col);
    T* const target = to.data + i * to.row_stride;
    if (from.col_stride == 1) {
      std::copy_n(source, to.cols, target);
    } else {
      for (Index j = 0; j < to.cols; ++j) target[j] = source[j * from.col_stride];
    }
  }
}

/// Writes the rows of a block to the rows of its slots, from column `col` on.
template <class T>
void scatter(view<T> to, view<T const> from, Int const* slots, Index slot_stride, Index col) {
  for (Index i = 0; i < from.rows; ++i) {
    T const* const source = from.data + i * from.row_stride;
    T* const target = to.row(slots[i * slot_stride]) + col * to.col_stride;
    if (to.col_stride == 1) {
      std::copy_n(source, from.cols, target);
    } else {
      for (Index j = 0; j < from.cols; ++j) target[j * to.col_stride] = source[j];
    }
  }
}

}  // namespace detail

/// For every slot s of every expert e: y.row(s) = x.row(s / slots_per_row) w[e]. Rows of y whose slot has no expert
/// become 0. w is a stack [experts, depth, width], transposed views included, or was prepared as those panels; perm and
/// offsets come from sort_by_expert.
template <Executor E, class T>
void grouped_gemm(E& executor, view<T> y, view<std::type_identity_t<T const>> x, view<std::type_identity_t<T const>> w,
                  view<Int const> perm, view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch,
                  detail::weight_panels<T> const* prepared = nullptr) {
  if (offsets(0, w.count) < y.count * y.rows) detail::set_to_zero(executor, y);
  Index tasks = 0, most = 2 * detail::product_rows;
  while (tasks < 16 && most > 288) {
    most /= 2;
    tasks = 0;
    for (Index e = 0; e < w.count; ++e) tasks += detail::slot_blocks(offsets, e, most);
  }
  // Few blocks of rows: the columns are cut too.
  Index const parts = tasks >= 8 ? 1 : (std::max)(Index{1}, w.cols / 64);
  constexpr Index panel = register_block<T>::cols;
  Index const part = ((w.cols + parts - 1) / parts + panel - 1) / panel * panel;
  scratch_cutter const begin(scratch);
  Index const bytes = scratch_bytes<T>(gather_rows * w.rows) + scratch_bytes<T>(gather_rows * w.cols);
  for_each_task(executor, tasks * parts, [&](Index task, Index worker) {
    Index e = 0, b = task / parts, blocks;
    for (; b >= (blocks = detail::slot_blocks(offsets, e, most)); ++e) b -= blocks;
    Index const slots = offsets(0, e + 1) - offsets(0, e);
    Index const begin_row = slots * b / blocks, end_row = slots * (b + 1) / blocks;
    Index const col = task % parts * part, cols = (std::min)(part, w.cols - col);
    if (cols <= 0) return;
    view<T const> const weights = w[e].middle_cols(col, cols);
    // Row by row in place, where rows are successive elements.
    if (x.col_stride == 1 && y.col_stride == 1 && w.rows > 0) {
      T const* from[detail::product_rows];
      T* to[detail::product_rows];
      for (Index i = 0; i < end_row - begin_row; ++i) {
        Index const slot = perm(0, offsets(0, e) + begin_row + i);
        from[i] = x.row(slot / slots_per_row);
        to[i] = y.row(slot) + col;
      }
      if (prepared) return prepared->multiply(to, from, end_row - begin_row, e, 1, col, cols, false);
      detail::left_operand<detail::listed_rows<T const>> const left{{from}};
      auto const ahead = [&](Index k, Index depth, Index j, Index width) {
        return detail::read_rows_ahead<T>{from, to, k, depth, j, width, end_row - begin_row};
      };
      return detail::multiply_panels<T>(end_row - begin_row, detail::listed_rows<T>{to}, left, weights, false, ahead);
    }
    for (Index i = begin_row; i < end_row; i += gather_rows) {
      Index const n = (std::min)(gather_rows, end_row - i);
      scratch_cutter cut(begin.position() + worker * bytes);
      view<T> const rows(cut.take<T>(gather_rows * w.rows), n, w.rows);
      view<T> const products(cut.take<T>(gather_rows * w.cols), n, cols);
      Int const* const list = &perm(0, offsets(0, e) + i);
      detail::gather<T>(rows, x, list, perm.col_stride, slots_per_row, 0);
      multiply(products, rows, weights, false);
      detail::scatter<T>(y, products, list, perm.col_stride, col);
    }
  });
}

}  // namespace headmix::cpu
