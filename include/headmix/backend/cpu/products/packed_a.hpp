#pragma once
// SPDX-License-Identifier: MIT
// The matrix a of a product, as the micro-kernel reads it: unpacked, by rows or with any strides, or packed.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Rows at a distance of `stride` elements.
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

// A micro-panel of a, as the micro-kernel reads it: element k of row r is (r, k).

/// R rows of successive elements.
template <int R, class T>
struct row_micro_panel {
  T const* row[R];
  [[nodiscard]] T operator()(int r, Index k) const { return row[r][k]; }
};
/// Rows and columns with any strides.
template <class T>
struct strided_micro_panel {
  T const* data;
  Index row, col;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r * row + k * col]; }
};
/// R packed rows, column by column; column k of the product is the packed column columns[k].
template <int R, class T, class Columns>
struct packed_micro_panel {
  T const* data;
  Columns columns;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r + columns[k] * R]; }
};
struct all_columns {
  Index first = 0;
  [[nodiscard]] Index operator[](Index k) const { return first + k; }
  [[nodiscard]] all_columns operator+(Index k) const { return {first + k}; }
};

// Matrices a. `micro_panel<R>(i, n, k)` is the micro-panel of R rows from row i and column k on, of which n exist.

/// Rows of successive elements, unpacked. The last row stands in for missing ones and is written more than once.
template <class Rows>
struct unpacked_a {
  Rows rows;

  template <int R>
  [[nodiscard]] auto micro_panel(Index i, int n, Index k) const {
    row_micro_panel<R, std::remove_cvref_t<decltype(*rows(0))>> panel;
    for (int r = 0; r < R; ++r) panel.row[r] = rows(i + (std::min)(r, n - 1)) + k;
    return panel;
  }
};
/// Any strides, unpacked: no row stands in for a missing one.
template <class T>
struct strided_a {
  view<T const> a;

  template <int R>
  [[nodiscard]] strided_micro_panel<T> micro_panel(Index i, int, Index k) const {
    return {&a(i, k), a.row_stride, a.col_stride};
  }
};
/// n elements rounded up to an odd number of cache lines. Rows at that distance are spread over the sets of a cache; at
/// a power of 2 they would share few sets.
template <class T>
[[nodiscard]] constexpr Index odd_lines(Index n) {
  constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  return ((n + line - 1) / line | 1) * line;
}
/// Packed a: micro-panels of mr rows, each column by column. A product reads all columns, or those of a list.
template <class T, class Columns = all_columns>
struct packed_a {
  static constexpr int mr = register_block<T>::mr;
  T const* data;
  Index stride;  ///< from micro-panel to micro-panel
  Columns columns = {};

  /// The stride for `depth` columns.
  [[nodiscard]] static constexpr Index stride_of(Index depth) { return odd_lines<T>(depth * mr); }
  [[nodiscard]] static constexpr Index size(Index m, Index depth) { return (m + mr - 1) / mr * stride_of(depth); }
  template <int R>
  [[nodiscard]] packed_micro_panel<R, T, Columns> micro_panel(Index i, int, Index k) const {
    static_assert(R == mr, "headmix: a micro-panel of a packed matrix has mr rows");
    return {data + i / mr * stride, columns + k};
  }
};
template <class A>
inline constexpr bool is_packed_a = false;
template <class T, class Columns>
inline constexpr bool is_packed_a<packed_a<T, Columns>> = true;

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
