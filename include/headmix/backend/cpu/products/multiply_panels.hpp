#pragma once
// SPDX-License-Identifier: MIT
// Dense products on one thread, of any extents: b goes panel by panel through the micro-kernel. Copied are only panels
// of b, and an a whose columns lie closer than its rows.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/packing.hpp"

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// c = a b or c += a b for m rows c(i) of successive elements and any b, also of narrower numbers. Panels of b are
/// copied to the stack, unless they lie like that already or are hardly used: where many rows use them, in the course
/// of the product before.
template <class T, class A, class C, class B, class Rows = no_rows_ahead<T>>
void multiply_panels(Index m, C c, A const& a, view<B> b, bool accumulate, Rows rows_ahead = {}) {
  using block = register_block<T>;
  constexpr bool same = std::is_same_v<std::remove_const_t<B>, T>;
  alignas(64) T packed[2][block::depth * block::cols];
  int buffer = 0;
  bool is_packed = false;
  Index const part = block::depth_of(b.rows);
  auto const panel_at = [&b, part](Index k, Index j) {
    if (j >= b.cols) k += part, j = 0;
    if (k >= b.rows) return view<B>(nullptr, 0, 0);
    Index const width = Index{panel_vectors<T>(b.cols - j)} * block::lanes;
    return b.middle_rows(k, (std::min)(part, b.rows - k)).middle_cols(j, (std::min)(width, b.cols - j));
  };
  auto const in_place = [m](view<B> const& panel, Index width) {
    bool const close = panel.row_stride == width || m <= 2 * block::rows;
    return same && close && panel.col_stride == 1 && panel.cols == width;
  };
  for (Index k = 0; k < b.rows; k += part)
    for (Index j = 0, next; j < b.cols; j = next) {
      view<B> const panel = panel_at(k, j);
      int const vectors = panel_vectors<T>(b.cols - j);
      Index const width = Index{vectors} * block::lanes;
      next = j + panel.cols;
      T const* from = packed[buffer];
      Index row = width;
      if (in_place(panel, width)) {
        if constexpr (same) from = panel.data, row = panel.row_stride;
      } else if (!is_packed) {
        pack_panel(packed[buffer], width, panel);
      }
      view<B> const ahead = panel_at(k, next);
      is_packed = same && ahead.col_stride == 1 && m >= tuning::copy_rows && ahead.cols == block::cols &&
                  !in_place(ahead, block::cols);
      if (is_packed) buffer = 1 - buffer;
      read_ahead<T, B> const next_panel(ahead, m / block::rows, is_packed ? packed[buffer] : nullptr);
      multiply_panel<T>(
          m, panel.cols, vectors, k, panel.rows, a, from, row, [&c, j](Index i) { return c(i) + j; },
          accumulate || k > 0,
          read_both<T, B, decltype(rows_ahead(k, panel.rows, j))>{next_panel, rows_ahead(k, panel.rows, j)});
    }
}

/// The same for matrices: c has col_stride 1.
template <class T, class B>
void multiply_panels(view<T> c, view<std::type_identity_t<T const>> a, view<B> b, bool accumulate) {
  using block = register_block<T>;
  auto const rows_from = [&c](Index i) { return strided_rows<T>{c.row(i), c.row_stride}; };
  if (a.col_stride == 1) {
    left_operand<strided_rows<T const>> const left{{a.data, a.row_stride}};
    return multiply_panels<T>(c.rows, rows_from(0), left, b, accumulate);
  }
  if (2 * block::rows > c.rows || block::cols >= b.cols)
    return multiply_panels<T>(c.rows, rows_from(0), left_matrix<T>{a}, b, accumulate);
  // Strips are worth their copies where several panels of b use them.
  constexpr Index height = tuning::strip_blocks * block::rows, depth = tuning::strip_depth;
  alignas(64) T strips[left_strips<T>::size(height, depth)];
  for (Index i = 0; i < c.rows; i += height)
    for (Index k = 0; k < a.cols; k += depth) {
      Index const m = (std::min)(height, c.rows - i), n = (std::min)(depth, a.cols - k);
      pack_strips<T>(strips, m, n, a.row_stride, [&](Index q) { return &a(i, k + q); });
      multiply_panels<T>(m, rows_from(i), left_strips<T>{strips, left_strips<T>::stride_of(n)}, b.middle_rows(k, n),
                         accumulate || k > 0);
    }
}

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail
