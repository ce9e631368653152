#pragma once
// SPDX-License-Identifier: MIT
// Where the rows of a product lie, and how the micro-kernel reads a: rows of successive elements, anything with two
// strides, or strips that were copied for it.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// Rows that begin `stride` elements after each other.
template <class T>
struct strided_rows {
  T* data;
  Index stride;
  [[nodiscard]] T* operator()(Index i) const { return data + i * stride; }
};

/// Rows anywhere in memory: row i begins at `col` of rows[i].
template <class T>
struct listed_rows {
  T* const* rows;
  Index col = 0;
  [[nodiscard]] T* operator()(Index i) const { return rows[i] + col; }
};

/// How the register block reads a: R rows of successive elements,
template <int R, class T>
struct left_rows {
  T const* row[R];
  [[nodiscard]] T operator()(int r, Index k) const { return row[r][k]; }
};
/// or anything with two strides,
template <class T>
struct left_strides {
  T const* data;
  Index row, col;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r * row + k * col]; }
};
/// or R rows of which the elements of a column follow each other; column k is the one that columns[k] says.
template <int R, class T, class Columns>
struct left_columns {
  T const* data;
  Columns columns;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r + columns[k] * R]; }
};
struct all_columns {
  Index first = 0;
  [[nodiscard]] Index operator[](Index k) const { return first + k; }
  [[nodiscard]] all_columns operator+(Index k) const { return {first + k}; }
};

/// Left operands of a product. `block<R>(i, rows, k)` reads R rows from row i on, of which only `rows` exist, from
/// column k on; the last one stands in for the others and is written more than once. This one has rows of successive
/// elements.
template <class Rows>
struct left_operand {
  Rows rows;

  template <int R>
  [[nodiscard]] auto block(Index i, int n, Index k) const {
    left_rows<R, std::remove_cvref_t<decltype(*rows(0))>> left;
    for (int r = 0; r < R; ++r) left.row[r] = rows(i + (std::min)(r, n - 1)) + k;
    return left;
  }
};
/// A matrix with any strides, where nothing can stand in for a missing row.
template <class T>
struct left_matrix {
  view<T const> a;

  template <int R>
  [[nodiscard]] left_strides<T> block(Index i, int, Index k) const {
    return {&a(i, k), a.row_stride, a.col_stride};
  }
};
/// Elements that hold n of them: an odd number of cache lines. Rows so far from each other do not share places of the
/// cache, as those a power of 2 apart do.
template <class T>
[[nodiscard]] constexpr Index odd_lines(Index n) {
  constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  return ((n + line - 1) / line | 1) * line;
}
/// A copy of a matrix whose columns lie closer than its rows. A strip has as many rows as a register block, column by
/// column, so that a product reads it from begin to end, or those columns that a list names.
template <class T, class Columns = all_columns>
struct left_strips {
  static constexpr int rows = register_block<T>::rows;
  T const* data;
  Index stride;  ///< from strip to strip
  Columns columns = {};

  /// Elements from strip to strip for so many columns.
  [[nodiscard]] static constexpr Index stride_of(Index depth) { return odd_lines<T>(depth * rows); }
  [[nodiscard]] static constexpr Index size(Index m, Index depth) { return (m + rows - 1) / rows * stride_of(depth); }
  template <int R>
  [[nodiscard]] left_columns<R, T, Columns> block(Index i, int, Index k) const {
    static_assert(R == rows, "headmix: strips of this operand have its number of rows");
    return {data + i / rows * stride, columns + k};
  }
};
template <class A>
inline constexpr bool is_strips = false;
template <class T, class Columns>
inline constexpr bool is_strips<left_strips<T, Columns>> = true;

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
