#pragma once
// SPDX-License-Identifier: MIT
// Transposes of matrices, by squares of registers.

#include <cstddef>
#include <utility>

#include "headmix/backend/cpu/simd/simd.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Interleaves the first (Half 0) or the last (Half 1) halves of two vectors.
template <int Half, class V, std::size_t... J>
V interleave(V const& a, V const& b, std::index_sequence<J...>) {
  constexpr std::size_t n = sizeof...(J), begin = Half * n / 2;
  return shuffle<static_cast<int>(begin + J / 2 + J % 2 * n)...>(a, b);
}

/// Transposes a square of lanes<T> rows. To interleave rows r and r + n / 2 moves a bit of the row's number to the
/// column's: after log2(n) steps all bits have moved.
template <class T, class S>
HEADMIX_WHOLE_VECTORS void transpose_square(T* to, Index to_row, S const* from, Index from_row) {
  constexpr int n = lanes<T>;
  using order = std::make_index_sequence<n>;
  vector<T> row[n], mixed[n];
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) row[r] = load_as<T>(from + r * from_row);
#pragma GCC unroll 4
  for (int moved = 1; moved < n; moved *= 2) {
#pragma GCC unroll 8
    for (int r = 0; r < n / 2; ++r) {
      mixed[2 * r] = interleave<0>(row[r], row[r + n / 2], order{});
      mixed[2 * r + 1] = interleave<1>(row[r], row[r + n / 2], order{});
    }
#pragma GCC unroll 16
    for (int r = 0; r < n; ++r) row[r] = mixed[r];
  }
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) store(to + r * to_row, row[r]);
}

/// to = from^T, row-major with `to_row` elements from row to row; numbers of `from` may be narrower.
template <class T, class S>
void transpose(T* to, Index to_row, view<S> from) {
  constexpr Index n = lanes<T>;
  Index const rows = from.col_stride == 1 ? from.rows / n * n : 0, cols = from.cols / n * n;
  for (Index i = 0; i < rows; i += n)
    for (Index j = 0; j < cols; j += n) transpose_square(to + j * to_row + i, to_row, &from(i, j), from.row_stride);
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = i < rows ? cols : 0; j < from.cols; ++j) to[j * to_row + i] = static_cast<T>(from(i, j));
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
