#pragma once
// SPDX-License-Identifier: MIT
// Packing: copies of a and b as the micro-kernel reads them.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "headmix/backend/cpu/products/micro_kernel.hpp"
#include "headmix/backend/cpu/simd/transpose.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Copies n elements, whole vectors. Rows of a panel are short and far apart: wide loads have more cache misses
/// outstanding.
template <class T>
HEADMIX_WHOLE_VECTORS void copy_vectors(T* to, T const* from, Index n) {
#pragma GCC unroll 4
  for (Index j = 0; j < n; j += lanes<T>) store(to + j, load(from + j));
}

/// Copies `rows` rows of n elements, whole vectors.
template <class T, class Count>
void copy_rows(T* to, T const* from, Index from_row, Index rows, Count n) {
  for (Index i = 0; i < rows; ++i, from += from_row, to += n) copy_vectors(to, from, n);
}

/// Packs a panel of b, widened to T: rows of `width` elements, zeros behind the last column.
template <class T, class S>
void pack_b_panel(T* to, Index width, view<S> panel) {
  if (panel.col_stride != 1) {
    transpose<T>(to, width, panel.transposed());
  } else if constexpr (!std::is_same_v<std::remove_const_t<S>, T>) {
    for (Index i = 0; i < panel.rows; ++i) convert_row(to + i * width, panel.row(i), panel.cols);
  } else if (panel.cols == width) {
    constexpr std::integral_constant<Index, register_block<T>::nr> nr;
    if (width == nr) return copy_rows<T>(to, panel.data, panel.row_stride, panel.rows, nr);  // without a loop
    copy_rows<T>(to, panel.data, panel.row_stride, panel.rows, width);
  } else {
    for (Index i = 0; i < panel.rows; ++i) std::copy_n(panel.row(i), panel.cols, to + i * width);
  }
  if (panel.cols != width)
    for (Index i = 0; i < panel.rows; ++i) std::fill_n(to + i * width + panel.cols, width - panel.cols, T(0));
}

/// Packs m rows and `depth` columns of a (packed_a). column(k) is where column k begins; its elements are `step` apart.
template <class T, class F>
void pack_a(T* to, Index m, Index depth, Index step, F column) {
  using S = std::remove_cvref_t<decltype(*column(Index{0}))>;
  constexpr Index mr = packed_a<T>::mr, distance = tuning::pack_a_prefetch, line = 64 / static_cast<Index>(sizeof(S));
  Index const stride = packed_a<T>::stride_of(depth), whole = step == 1 ? m / mr * mr : 0;
  for (Index k = 0; k < depth; ++k) {
    S const* const from = column(k);
    if (k + distance < depth && step == 1)
      for (S const *p = column(k + distance), *const end = p + m; p < end; p += line) __builtin_prefetch(p);
    T* panel = to + k * mr;
    if constexpr (std::is_same_v<S, T>) {
      for (Index i = 0; i < whole; i += mr, panel += stride) std::memcpy(panel, from + i, mr * sizeof(T));
    } else {
      for (Index i = 0; i < whole; i += mr, panel += stride)
        for (Index r = 0; r < mr; ++r) panel[r] = static_cast<T>(from[i + r]);
    }
    for (Index i = whole; i < m; i += mr, panel += stride)
      for (Index r = 0; r < mr; ++r) panel[r] = static_cast<T>(from[(std::min)(i + r, m - 1) * step]);
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
