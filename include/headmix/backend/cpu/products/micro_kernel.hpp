#pragma once
// SPDX-License-Identifier: MIT
// The product of a panel of b on one thread: a block of c stays in vector registers while the depth runs, a is read
// element by element, b by whole vectors. The rows of a and c may lie anywhere, so that what experts read and write is
// neither gathered nor scattered.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/left_operand.hpp"
#include "headmix/backend/cpu/products/read_ahead.hpp"
#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/backend/cpu/simd/simd.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu::inline HEADMIX_ISA::detail {

/// c (R rows of V vectors) = or += a b over the given depth. The loops over R and V are unrolled: every sum is a
/// register. So is a part of the loop over k: what it costs itself would show where two threads share a core. Lines of
/// what is to be fetched are asked for now and then, as long as there is depth: few can be under way at a time, and
/// those of c at the beginning, for the end.
template <int R, int V, class T, class Left>
HEADMIX_WHOLE_VECTORS void multiply_registers(Index depth, Left const& a, T const* b, Index b_row, T* const* c,
                                              bool accumulate, rows_to_fetch<T> const& next = {}) {
  vector<T> sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sum[r][v] = vector<T>{};
      __builtin_prefetch(c[r] + v * lanes<T>, 1);
    }
  auto const multiply_add = [&](Index k) __attribute__((always_inline)) {
    vector<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(b + k * b_row + v * lanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T const left = a(r, k);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  };
  line_fetcher<T> fetch(next, depth);
  for (Index k = 0, n; k < depth; k += n) {
    n = R == register_block<T>::rows ? (std::min)(fetch.step(k), depth - k) : depth;
#pragma GCC unroll 4
    for (Index s = 0; s < n; ++s) multiply_add(k + s);
  }
  fetch.finish();
  // Rows that stand in for missing ones are the same memory: all are read before any is written.
  if (accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += load(c[r] + v * lanes<T>);
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(c[r] + v * lanes<T>, sum[r][v]);
}

template <int R, int V, class T, class A, class C>
void multiply_block(int rows, Index i, Index k, Index depth, A const& a, T const* b, Index b_row, C c, bool accumulate,
                    rows_to_fetch<T> const& next) {
  T* to[R];
  for (int r = 0; r < R; ++r) to[r] = c((std::min)(r, rows - 1));
  multiply_registers<R, V>(depth, a.template block<R>(i, rows, k), b, b_row, to, accumulate, next);
}

/// c (+)= a[k .. k + depth) b for V vectors of columns, of which only `cols` elements may be written.
template <int V, class T, class A, class C, class Ahead>
void multiply_columns(Index m, Index cols, Index k, Index depth, A const& a, T const* b, Index b_row, C c,
                      bool accumulate, Ahead& ahead) {
  using block = register_block<T>;
  constexpr Index width = V * block::lanes;
  alignas(64) T edge[block::rows * width];
  int rows;
  for (Index i = 0; i < m; i += rows) {
    rows = static_cast<int>((std::min)(Index{block::rows}, m - i));
    // Nothing can stand in for missing rows of a matrix: 5 rows are 4 and 1, 3 are 2 and 1.
    if (std::is_same_v<A, left_matrix<T>> && rows < block::rows && rows > 1) rows = rows / 2 * 2;
    rows_to_fetch<T> const next = ahead.step();
    auto const run = [&](auto to) {
      if constexpr (!is_strips<A>) {
        if (rows == 1) return multiply_block<1, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
        if (rows == 2) return multiply_block<2, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
        if (rows <= 4) return multiply_block<4, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
      }
      multiply_block<block::rows, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
    };
    if (cols == width) {
      run([&c, i](int r) { return c(i + r); });
      continue;
    }
    if (accumulate)
      for (int r = 0; r < rows; ++r) std::fill_n(std::copy_n(c(i + r), cols, edge + r * width), width - cols, T(0));
    run([&edge](int r) { return edge + r * width; });
    for (int r = 0; r < rows; ++r) std::copy_n(edge + r * width, cols, c(i + r));
  }
}

/// Vectors of the next panel when `cols` columns are left: a whole register block, or 2 or 1.
template <class T>
constexpr int panel_vectors(Index cols) {
  using block = register_block<T>;
  Index const vectors = (cols + block::lanes - 1) / block::lanes;
  return vectors >= block::vectors ? block::vectors : vectors >= 2 ? 2 : 1;
}

/// The same for a number of vectors that panel_vectors returned; b holds whole vectors behind every row.
template <class T, class A, class C, class Ahead = read_nothing<T>>
void multiply_panel(Index m, Index cols, int vectors, Index k, Index depth, A const& a, T const* b, Index b_row, C c,
                    bool accumulate, Ahead ahead = {}) {
  if (vectors == 1) return multiply_columns<1>(m, cols, k, depth, a, b, b_row, c, accumulate, ahead);
  if constexpr (register_block<T>::vectors > 2)
    if (vectors == 2) return multiply_columns<2>(m, cols, k, depth, a, b, b_row, c, accumulate, ahead);
  multiply_columns<register_block<T>::vectors>(m, cols, k, depth, a, b, b_row, c, accumulate, ahead);
}

}  // namespace headmix::cpu::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
