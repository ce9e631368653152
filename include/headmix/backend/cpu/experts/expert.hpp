#pragma once
// SPDX-License-Identifier: MIT
// Slots of products with one weight matrix per expert. A slot is a (row, choice) pair, slot = row * slots_per_row +
// choice; the slots of an expert are a list.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/products/gemm.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Stable counting sort of the slots by sequence and expert: group g = sequence * experts + expert has the slots
/// perm[offsets[g]] .. perm[offsets[g + 1] - 1], ascending. Slots with an index outside of [0, experts) are behind all
/// groups. perm is [1, rows * k], offsets [1, sequences * experts + 1], index [rows, k]; `s` divides its rows.
inline void sort_by_expert(view<Int> perm, view<Int> offsets, view<Int const> index, segments s) {
  Index const groups = offsets.cols - 1, experts = s.count > 0 ? groups / s.count : 0;
  // offsets(0, g + 1) is first the number of slots of group g, then their begin, and at last their end.
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

namespace detail {

/// Blocks of at most `size` slots in the list of expert e.
inline Index slot_blocks(view<Int const> offsets, Index e, Index size) {
  return (offsets(0, e + 1) - offsets(0, e) + size - 1) / size;
}

/// The row of a slot, by a 32-bit division.
inline Index row_of(Int slot, Index slots_per_row) {
  return static_cast<Index>(static_cast<std::uint32_t>(slot) / static_cast<std::uint32_t>(slots_per_row));
}

template <class T>
void set_to_zero(executor_ref executor, view<T> y) {
  Index const block = tuning::zero_rows, rows = y.count * y.rows;
  executor.parallel_for((rows + block - 1) / block, [&](Index t) {
    for (Index i = t * block; i < (std::min)(rows, (t + 1) * block); ++i) clear_row(y, i, y.cols);
  });
}

/// Copies columns [col, col + to.cols) of the rows of to.rows slots.
template <class T, class S>
void gather(view<T> to, view<S> from, Int const* slots, Index slot_stride, Index slots_per_row, Index col) {
  for (Index i = 0; i < to.rows; ++i) {
    S* const source = &from(row_of(slots[i * slot_stride], slots_per_row), col);
    T* const target = to.data + i * to.row_stride;
    if (from.col_stride == 1) {
      convert_row(target, source, to.cols);
    } else {
      for (Index j = 0; j < to.cols; ++j) target[j] = static_cast<T>(source[j * from.col_stride]);
    }
  }
}

/// Copies the rows of a block to the rows of its slots, from column `col` on.
template <class S, class T>
void scatter(view<S> to, view<T> from, Int const* slots, Index slot_stride, Index col) {
  for (Index i = 0; i < from.rows; ++i) {
    T* const source = from.data + i * from.row_stride;
    S* const target = to.row(slots[i * slot_stride]) + col * to.col_stride;
    if (to.col_stride == 1) {
      convert_row(target, source, from.cols);
    } else {
      for (Index j = 0; j < from.cols; ++j) target[j * to.col_stride] = static_cast<S>(source[j]);
    }
  }
}

}  // namespace detail

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
