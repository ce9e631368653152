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
#include "headmix/backend/executor.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu {

/// Sorts the slots by expert with a stable counting sort: the slots of expert e are perm[offsets[e]] ..
/// perm[offsets[e + 1] - 1], ascending. Slots whose index is outside of [0, experts), as -1 is, follow behind
/// offsets[experts].
/// perm is [1, rows * k], offsets is [1, experts + 1], index is [rows, k].
inline void expert_order(view<Int> perm, view<Int> offsets, view<Int const> index, Index experts) {
  // offsets(0, e + 1) first counts the slots of expert e, is then where they begin, and while the slots are placed
  // moves on to where they end.
  for (Index e = 0; e <= experts; ++e) offsets(0, e) = 0;
  auto const present = [experts](Index e) { return e >= 0 && e < experts; };
  for (Index i = 0; i < index.rows; ++i)
    for (Index j = 0; j < index.cols; ++j)
      if (Index const e = index(i, j); present(e)) ++offsets(0, e + 1);
  Int begin = 0;
  for (Index e = 1; e <= experts; ++e) {
    Int const count = offsets(0, e);
    offsets(0, e) = begin;
    begin += count;
  }
  Int left_out = begin;
  for (Index i = 0; i < index.rows; ++i)
    for (Index j = 0; j < index.cols; ++j) {
      Index const e = index(i, j);
      perm(0, present(e) ? offsets(0, e + 1)++ : left_out++) = static_cast<Int>(i * index.cols + j);
    }
}

/// Rows of a gathered block.
inline constexpr Index gather_rows = 96;

/// Scratch that grouped_gemm and grouped_outer need for weights of depth x width, in bytes.
template <class T>
[[nodiscard]] constexpr Index grouped_scratch_bytes(Index depth, Index width, Index concurrency) {
  return scratch_alignment +
         concurrency * (scratch_bytes<T>(gather_rows * depth) + scratch_bytes<T>(gather_rows * width));
}

namespace detail {

/// Slots of one expert that are multiplied by one copy of its weights, at most.
inline constexpr Index product_rows = 288;

/// Blocks of at most `size` slots in the list of expert e.
inline Index slot_blocks(view<Int const> offsets, Index e, Index size) {
  return (offsets(0, e + 1) - offsets(0, e) + size - 1) / size;
}

/// Copies columns [col, col + to.cols) of the rows that belong to to.rows slots.
template <class T>
void gather(view<T> to, view<T const> from, Int const* slots, Index slot_stride, Index slots_per_row, Index col) {
  for (Index i = 0; i < to.rows; ++i) {
    T const* const source = from.row(slots[i * slot_stride] / slots_per_row) + col * from.col_stride;
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
/// become 0. w is a stack [experts, depth, width], transposed views included; perm and offsets come from expert_order.
template <Executor E, class T>
void grouped_gemm(E& executor, view<T> y, view<std::type_identity_t<T const>> x, view<std::type_identity_t<T const>> w,
                  view<Int const> perm, view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
  if (offsets(0, w.count) < y.count * y.rows) {
    Index const block = 1024, rows = y.count * y.rows;
    executor.parallel_for((rows + block - 1) / block, [&](Index t) {
      for (Index i = t * block; i < (std::min)(rows, (t + 1) * block); ++i)
        for (Index j = 0; j < y.cols; ++j) y.row(i)[j * y.col_stride] = T(0);
    });
  }
  Index tasks = 0;
  for (Index e = 0; e < w.count; ++e) tasks += detail::slot_blocks(offsets, e, detail::product_rows);
  // Few blocks of rows: the columns are cut too.
  Index const parts = tasks >= 8 ? 1 : (std::max)(Index{1}, w.cols / 64);
  Index const part = (w.cols + parts - 1) / parts;
  scratch_cutter const begin(scratch);
  Index const bytes = scratch_bytes<T>(gather_rows * w.rows) + scratch_bytes<T>(gather_rows * w.cols);
  for_each_task(executor, tasks * parts, [&](Index task, Index worker) {
    Index e = 0, b = task / parts, blocks;
    for (; b >= (blocks = detail::slot_blocks(offsets, e, detail::product_rows)); ++e) b -= blocks;
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
      detail::left_operand<detail::listed_rows<T const>> const left{{from}, 1};
      return detail::multiply_panels<T>(end_row - begin_row, detail::listed_rows<T>{to}, left, weights, false);
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

/// dw[e] = sum over the slots s of expert e, ascending, of x.row(s / slots_per_row)^T dy.row(s), or += with
/// `accumulate`. An expert without slots gets 0, or keeps what it has.
template <Executor E, class T>
void grouped_outer(E& executor, view<T> dw, view<std::type_identity_t<T const>> x,
                   view<std::type_identity_t<T const>> dy, view<Int const> perm, view<Int const> offsets,
                   Index slots_per_row, bool accumulate, std::span<std::byte> scratch) {
  task_shape shape = task_tiles(dw.rows, dw.cols);
  if (dw.count >= 4) shape = task_shape{};
  Index const across = (dw.cols + shape.cols - 1) / shape.cols;
  Index const tiles = (dw.rows + shape.rows - 1) / shape.rows * across;
  scratch_cutter const begin(scratch);
  Index const bytes = scratch_bytes<T>(gather_rows * dw.rows) + scratch_bytes<T>(gather_rows * dw.cols);
  for_each_task(executor, dw.count * tiles, [&](Index task, Index worker) {
    Index const e = task / tiles, i = task % tiles / across * shape.rows, j = task % across * shape.cols;
    Index const m = (std::min)(shape.rows, dw.rows - i), n = (std::min)(shape.cols, dw.cols - j);
    view<T> const result = block(dw[e], i, j, m, n);
    scratch_cutter cut(begin.position() + worker * bytes);
    T* const left_data = cut.take<T>(gather_rows * dw.rows);
    T* const right_data = cut.take<T>(gather_rows * dw.cols);
    bool add = accumulate;
    for (Index first = offsets(0, e), end = offsets(0, e + 1); first < end; first += gather_rows) {
      Index const depth = (std::min)(gather_rows, end - first);
      view<T> const left(left_data, depth, m), right(right_data, depth, n);
      detail::gather<T>(left, x, &perm(0, first), perm.col_stride, slots_per_row, i);
      detail::gather<T>(right, dy, &perm(0, first), perm.col_stride, 1, j);
      multiply(result, left.transposed(), right, add);
      add = true;
    }
    if (!add) multiply(result, view<T const>(nullptr, m, 0), view<T const>(nullptr, 0, n), false);
  });
}

}  // namespace headmix::cpu
