#pragma once
// SPDX-License-Identifier: MIT
// The micro-kernel: mr x nr sums in registers, a read element by element, b by whole vectors. The rows of a and c may
// lie anywhere, so the rows of experts are neither gathered nor scattered.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/packed_a.hpp"
#include "headmix/backend/cpu/products/prefetch.hpp"
#include "headmix/backend/cpu/products/register_block.hpp"
#include "headmix/backend/cpu/simd/simd.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// c (R rows of V vectors) = or += a b over the depth. The loops over R and V are unrolled, so every sum is a register;
/// the loop over k is unrolled by 4, as its overhead shows where two threads share a core. c is prefetched at the
/// beginning, `next` in the course of the depth.
template <int R, int V, class T, class MicroPanel>
HEADMIX_WHOLE_VECTORS void micro_kernel(Index depth, MicroPanel const& a, T const* b, Index b_row, T* const* c,
                                        bool accumulate, prefetch_request<T> const& next = {}) {
  vector<T> sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sum[r][v] = vector<T>{};
      __builtin_prefetch(c[r] + v * lanes<T>, 1);
    }
  auto const multiply_add = [&](Index k) __attribute__((always_inline)) {
    vector<T> b_k[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b_k[v] = load(b + k * b_row + v * lanes<T>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T const a_rk = a(r, k);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += a_rk * b_k[v];
    }
  };
  Index first = 0;
  if constexpr (tuning::a_in_lanes && requires { a.row[0]; }) {
    for (; first + lanes<T> <= depth; first += lanes<T>) {
      vector<T> a_k[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) opaque(a_k[r] = load(a.row[r] + first));
#pragma GCC unroll 4
      for (int s = 0; s < lanes<T>; ++s) {
        vector<T> b_k[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) b_k[v] = load(b + (first + s) * b_row + v * lanes<T>);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) sum[r][v] += a_k[r][s] * b_k[v];
      }
    }
  }
  prefetcher<T> fetch(next, depth);
  for (Index k = first, n; k < depth; k += n) {
    n = R == register_block<T>::mr ? (std::min)(fetch.step(k), depth - k) : depth - k;
#pragma GCC unroll 4
    for (Index s = 0; s < n; ++s) multiply_add(k + s);
  }
  fetch.finish();
  // c may have one row several times (unpacked_a): all rows are read before any is written.
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
                    prefetch_request<T> const& next) {
  T* to[R];
  for (int r = 0; r < R; ++r) to[r] = c((std::min)(r, rows - 1));
  micro_kernel<R, V>(depth, a.template micro_panel<R>(i, rows, k), b, b_row, to, accumulate, next);
}

/// c (+)= a[k .. k + depth) b for m rows and V vectors of columns, of which `cols` elements may be written.
template <int V, class T, class A, class C, class Prefetch>
void multiply_columns(Index m, Index cols, Index k, Index depth, A const& a, T const* b, Index b_row, C c,
                      bool accumulate, Prefetch& prefetch) {
  using block = register_block<T>;
  constexpr Index width = V * block::lanes;
  alignas(64) T edge[block::mr * width];
  int rows;
  for (Index i = 0; i < m; i += rows) {
    rows = static_cast<int>((std::min)(Index{block::mr}, m - i));
    // No row of a strided_a stands in for a missing one: 5 rows are 4 and 1, 3 are 2 and 1.
    if (std::is_same_v<A, strided_a<T>> && rows < block::mr && rows > 1) rows = rows / 2 * 2;
    prefetch_request<T> const next = prefetch.step();
    auto const run = [&](auto to) {
      if constexpr (!is_packed_a<A>) {
        if (rows == 1) return multiply_block<1, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
        if (rows == 2) return multiply_block<2, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
        if (rows <= 4) return multiply_block<4, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
      }
      multiply_block<block::mr, V>(rows, i, k, depth, a, b, b_row, to, accumulate, next);
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

/// Vectors of the next panel of b when `cols` columns are left: those of nr, 2 or 1.
template <class T>
constexpr int panel_vectors(Index cols) {
  using block = register_block<T>;
  Index const vectors = (cols + block::lanes - 1) / block::lanes;
  return vectors >= block::vectors ? block::vectors : vectors >= 2 ? 2 : 1;
}

/// multiply_columns with the number of vectors from panel_vectors; b has whole vectors in every row.
template <class T, class A, class C, class Prefetch = no_prefetch<T>>
void multiply_panel(Index m, Index cols, int vectors, Index k, Index depth, A const& a, T const* b, Index b_row, C c,
                    bool accumulate, Prefetch prefetch = {}) {
  if (vectors == 1) return multiply_columns<1>(m, cols, k, depth, a, b, b_row, c, accumulate, prefetch);
  if constexpr (register_block<T>::vectors > 2)
    if (vectors == 2) return multiply_columns<2>(m, cols, k, depth, a, b, b_row, c, accumulate, prefetch);
  multiply_columns<register_block<T>::vectors>(m, cols, k, depth, a, b, b_row, c, accumulate, prefetch);
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
