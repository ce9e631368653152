#pragma once
// SPDX-License-Identifier: MIT
// Dense products on one thread, of any extents: b goes panel by panel through the micro-kernel. Copied are only panels
// of b, and an a whose columns lie closer than its rows.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/packing.hpp"

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// c = a b or c += a b for m rows c(i) of successive elements and any b, also of narrower numbers. Panels of b are
/// copied to the stack first, unless they lie like that already or are hardly used.
template <class T, class A, class C, class B, class Rows = no_rows_ahead<T>>
void multiply_panels(Index m, C c, A const& a, view<B> b, bool accumulate, Rows rows_ahead = {}) {
  using block = register_block<T>;
  alignas(64) T packed[block::depth * block::cols];
  Index const part = block::depth_of(b.rows);
  for (Index k = 0; k < b.rows; k += part) {
    Index const depth = (std::min)(part, b.rows - k);
    for (Index j = 0, next; j < b.cols; j = next) {
      int const vectors = panel_vectors<T>(b.cols - j);
      Index const width = vectors * block::lanes, cols = (std::min)(width, b.cols - j);
      next = j + cols;
      view<B> const panel = b.middle_rows(k, depth).middle_cols(j, cols);
      T const* from = packed;
      Index row = panel.row_stride;
      bool copies = panel.col_stride != 1 || cols != width || (row != width && m > 2 * block::rows);
      if constexpr (std::is_same_v<std::remove_const_t<B>, T>) {
        if (!copies) from = panel.data;
      } else {
        copies = true;
      }
      if (copies) {
        pack_panel(packed, width, panel);
        row = width;
      }
      view<B> ahead(nullptr, 0, 0);
      if (b.col_stride == 1) {
        if (next < b.cols) {
          ahead = b.middle_rows(k, depth).middle_cols(next, (std::min)(block::cols, b.cols - next));
        } else if (k + depth < b.rows) {
          ahead = b.middle_rows(k + depth, (std::min)(part, b.rows - k - depth))
                      .middle_cols(0, (std::min)(block::cols, b.cols));
        }
      }
      multiply_panel<T>(
          m, cols, vectors, k, depth, a, from, row, [&c, j](Index i) { return c(i) + j; }, accumulate || k > 0,
          read_both<T, B, decltype(rows_ahead(k, depth, j))>{read_ahead<T, B>(ahead, m / block::rows),
                                                             rows_ahead(k, depth, j)});
    }
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
