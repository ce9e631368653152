#pragma once
// SPDX-License-Identifier: MIT
// Dense products of any extents on one thread: the loops around the micro-kernel. b is packed panel by panel; a is
// packed only where its columns are successive elements.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/packing.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// c = a b or c += a b for m rows c(i) of successive elements and any b, also of narrower numbers. Panels of b are
/// packed on the stack, for many rows in the course of the product before; not where b has their layout or few rows use
/// them.
template <class T, class A, class C, class B, class PrefetchRows = no_row_prefetch<T>>
void multiply_panels(Index m, C c, A const& a, view<B> b, bool accumulate, PrefetchRows prefetch_rows = {}) {
  using block = register_block<T>;
  constexpr bool same = std::is_same_v<std::remove_const_t<B>, T>;
  alignas(64) T packed[2][block::kc * block::nr];
  int buffer = 0;
  bool is_packed = false;
  Index const part = block::kc_of(b.rows);
  auto const panel_at = [&b, part](Index k, Index j) {
    if (j >= b.cols) k += part, j = 0;
    if (k >= b.rows) return view<B>(nullptr, 0, 0);
    Index const width = Index{panel_vectors<T>(b.cols - j)} * block::lanes;
    return b.middle_rows(k, (std::min)(part, b.rows - k)).middle_cols(j, (std::min)(width, b.cols - j));
  };
  auto const in_place = [m](view<B> const& panel, Index width) {
    bool const close = panel.row_stride == width || m <= 2 * block::mr;
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
        pack_b_panel(packed[buffer], width, panel);
      }
      view<B> const next_panel = panel_at(k, next);
      is_packed = same && next_panel.col_stride == 1 && m >= tuning::copy_rows && next_panel.cols == block::nr &&
                  !in_place(next_panel, block::nr);
      if (is_packed) buffer = 1 - buffer;
      panel_prefetch<T, B> const prefetch(next_panel, m / block::mr, is_packed ? packed[buffer] : nullptr);
      multiply_panel<T>(
          m, panel.cols, vectors, k, panel.rows, a, from, row, [&c, j](Index i) { return c(i) + j; },
          accumulate || k > 0,
          prefetch_both<T, B, decltype(prefetch_rows(k, panel.rows, j))>{prefetch, prefetch_rows(k, panel.rows, j)});
    }
}

/// c = a b or c += a b for matrices; c has col_stride 1.
template <class T, class B>
  requires std::is_const_v<B>
void multiply_panels(view<T> c, view<std::type_identity_t<T const>> a, view<B> b, bool accumulate) {
  using block = register_block<T>;
  auto const rows_from = [&c](Index i) { return strided_rows<T>{c.row(i), c.row_stride}; };
  if (a.col_stride == 1) {
    unpacked_a<strided_rows<T const>> const rows{{a.data, a.row_stride}};
    return multiply_panels<T>(c.rows, rows_from(0), rows, b, accumulate);
  }
  if (2 * block::mr > c.rows || block::nr >= b.cols)
    return multiply_panels<T>(c.rows, rows_from(0), strided_a<T>{a}, b, accumulate);
  // Packing a pays where several panels of b use it.
  constexpr Index height = tuning::packed_a_panels * block::mr, depth = tuning::packed_a_depth;
  alignas(64) T a_data[packed_a<T>::size(height, depth)];
  for (Index i = 0; i < c.rows; i += height)
    for (Index k = 0; k < a.cols; k += depth) {
      Index const m = (std::min)(height, c.rows - i), n = (std::min)(depth, a.cols - k);
      pack_a<T>(a_data, m, n, a.row_stride, [&](Index q) { return &a(i, k + q); });
      multiply_panels<T>(m, rows_from(i), packed_a<T>{a_data, packed_a<T>::stride_of(n)}, b.middle_rows(k, n),
                         accumulate || k > 0);
    }
}

template <class T, class B>
  requires(!std::is_const_v<B>)
void multiply_panels(view<T> c, view<std::type_identity_t<T const>> a, view<B> b, bool accumulate) {
  multiply_panels<T, B const>(c, a, b, accumulate);
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
