#pragma once
// SPDX-License-Identifier: MIT
// Copies of operands as the micro-kernel reads them: panels of b, and strips of an a whose columns lie closer than its
// rows.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "headmix/backend/cpu/products/micro_kernel.hpp"
#include "headmix/backend/cpu/simd/transpose.hpp"

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// Copies n elements, whole vectors. Rows of a panel are short and far apart: with wide loads more of them are under
/// way to the cache at the same time.
template <class T>
HEADMIX_WHOLE_VECTORS void copy_vectors(T* to, T const* from, Index n) {
  for (Index j = 0; j < n; j += lanes<T>) store(to + j, load(from + j));
}

/// Copies a panel of b, whose numbers may be narrower, to rows of `width` elements, zeros behind the last column.
template <class T, class S>
void pack_panel(T* to, Index width, view<S> panel) {
  if (panel.col_stride != 1) {
    transpose<T>(to, width, panel.transposed());
  } else if constexpr (!std::is_same_v<std::remove_const_t<S>, T>) {
    for (Index i = 0; i < panel.rows; ++i) convert_row(to + i * width, panel.row(i), panel.cols);
  } else if (panel.cols == width) {
    for (Index i = 0; i < panel.rows; ++i) copy_vectors(to + i * width, panel.row(i), width);
  } else {
    for (Index i = 0; i < panel.rows; ++i) std::copy_n(panel.row(i), panel.cols, to + i * width);
  }
  if (panel.cols != width)
    for (Index i = 0; i < panel.rows; ++i) std::fill_n(to + i * width + panel.cols, width - panel.cols, T(0));
}

/// Copies m rows and `depth` columns to strips; column(k) is where column k begins, and its elements lie `step` apart.
template <class T, class F>
void pack_strips(T* to, Index m, Index depth, Index step, F column) {
  using S = std::remove_cvref_t<decltype(*column(Index{0}))>;
  constexpr Index rows = left_strips<T>::rows, ahead = tuning::strip_ahead, line = 64 / static_cast<Index>(sizeof(S));
  Index const stride = left_strips<T>::stride_of(depth), whole = step == 1 ? m / rows * rows : 0;
  for (Index k = 0; k < depth; ++k) {
    S const* const from = column(k);
    if (k + ahead < depth && step == 1)
      for (S const *p = column(k + ahead), *const end = p + m; p < end; p += line) __builtin_prefetch(p);
    T* strip = to + k * rows;
    if constexpr (std::is_same_v<S, T>) {
      for (Index i = 0; i < whole; i += rows, strip += stride) std::memcpy(strip, from + i, rows * sizeof(T));
    } else {
      for (Index i = 0; i < whole; i += rows, strip += stride)
        for (Index r = 0; r < rows; ++r) strip[r] = static_cast<T>(from[i + r]);
    }
    for (Index i = whole; i < m; i += rows, strip += stride)
      for (Index r = 0; r < rows; ++r) strip[r] = static_cast<T>(from[(std::min)(i + r, m - 1) * step]);
  }
}

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail
