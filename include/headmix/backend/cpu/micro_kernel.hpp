#pragma once
// SPDX-License-Identifier: MIT
// Dense products on one thread: a block of c stays in vector registers while the depth runs, a is read element by
// element with any strides, b by whole vectors. Nothing has to be packed for that, which is what Eigen loses a third of
// its time with in the small blocks of attention and of experts.

#include <algorithm>
#include <cstring>

#include "headmix/core/config.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu {

/// Extents of the register block for T: `rows` x (`vectors` vectors of `lanes` elements).
template <class T>
struct register_block {
#if defined(__AVX512F__)
  static constexpr int bytes = 64, vectors = 4;
#elif defined(__AVX__)
  static constexpr int bytes = 32, vectors = 2;
#else
  static constexpr int bytes = 16, vectors = 2;
#endif
  static constexpr int rows = 6;
  static constexpr int lanes = bytes / static_cast<int>(sizeof(T));
  static constexpr Index cols = vectors * lanes;
  static constexpr Index depth = 256;  // of a panel of b, which must fit into the L1 and L2 caches
};

namespace detail {

/// c (R x V vectors) = or += a b over the given depth. The loops over R and V are unrolled: every sum is a register.
template <int R, int V, class T>
void multiply_registers(Index depth, T const* a, Index a_row, Index a_col, T const* b, Index b_row, T* c, Index c_row,
                        bool accumulate) {
  constexpr int lanes = register_block<T>::lanes;
  typedef T vector __attribute__((vector_size(register_block<T>::bytes)));
  vector sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (accumulate) {
        std::memcpy(&sum[r][v], c + r * c_row + v * lanes, sizeof(vector));
      } else {
        sum[r][v] = vector{};
      }
    }
  for (Index k = 0; k < depth; ++k) {
    vector right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) std::memcpy(&right[v], b + k * b_row + v * lanes, sizeof(vector));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T const left = a[r * a_row + k * a_col];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) std::memcpy(c + r * c_row + v * lanes, &sum[r][v], sizeof(vector));
}

template <int V, class T>
void multiply_rows(int rows, Index depth, T const* a, Index a_row, Index a_col, T const* b, Index b_row, T* c,
                   Index c_row, bool accumulate) {
  switch (rows) {
    case 1:
      return multiply_registers<1, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
    case 2:
      return multiply_registers<2, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
    case 3:
      return multiply_registers<3, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
    case 4:
      return multiply_registers<4, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
    case 5:
      return multiply_registers<5, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
    default:
      return multiply_registers<6, V>(depth, a, a_row, a_col, b, b_row, c, c_row, accumulate);
  }
}

/// One panel: c is at most register_block::cols wide and b holds whole vectors behind every row.
template <class T>
void multiply_panel(view<T> c, view<T const> a, T const* b, Index b_row, bool accumulate) {
  using block = register_block<T>;
  int const vectors = static_cast<int>((c.cols + block::lanes - 1) / block::lanes);
  bool const whole = c.cols == vectors * block::lanes;
  T edge[block::rows * block::cols];
  for (Index i = 0; i < c.rows; i += block::rows) {
    int const rows = static_cast<int>((std::min)(Index{block::rows}, c.rows - i));
    T* to = c.row(i);
    Index to_row = c.row_stride;
    if (!whole) {
      to = edge;
      to_row = vectors * block::lanes;
      std::fill_n(edge, block::rows * block::cols, T(0));
      if (accumulate)
        for (int r = 0; r < rows; ++r) std::copy_n(c.row(i + r), c.cols, edge + r * to_row);
    }
    T const* const from = a.row(i);
    switch (vectors) {
      case 1:
        multiply_rows<1>(rows, a.cols, from, a.row_stride, a.col_stride, b, b_row, to, to_row, accumulate);
        break;
      case 2:
        multiply_rows<2>(rows, a.cols, from, a.row_stride, a.col_stride, b, b_row, to, to_row, accumulate);
        break;
      case 3:
        if constexpr (block::vectors > 2)
          multiply_rows<3>(rows, a.cols, from, a.row_stride, a.col_stride, b, b_row, to, to_row, accumulate);
        break;
      default:
        if constexpr (block::vectors > 2)
          multiply_rows<4>(rows, a.cols, from, a.row_stride, a.col_stride, b, b_row, to, to_row, accumulate);
    }
    if (!whole)
      for (int r = 0; r < rows; ++r) std::copy_n(edge + r * to_row, c.cols, c.row(i + r));
  }
}

/// to (row-major, `to_row` elements from row to row) = the transpose of `from`.
template <class T>
void transpose(T* to, Index to_row, view<T const> from) {
  typedef T vector __attribute__((vector_size(4 * sizeof(T))));
  Index const rows = from.col_stride == 1 ? from.rows / 4 * 4 : 0, cols = from.cols / 4 * 4;
  // Four columns at a time, down all rows: the lines that are written are written whole before the next ones.
  for (Index j = 0; j < cols; j += 4)
    for (Index i = 0; i < rows; i += 4) {
      vector a, b, c, d;
      std::memcpy(&a, &from(i, j), sizeof(vector));
      std::memcpy(&b, &from(i + 1, j), sizeof(vector));
      std::memcpy(&c, &from(i + 2, j), sizeof(vector));
      std::memcpy(&d, &from(i + 3, j), sizeof(vector));
      vector const ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      vector const cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      vector const columns[4] = {
          __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
          __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
      for (int q = 0; q < 4; ++q) std::memcpy(to + (j + q) * to_row + i, &columns[q], sizeof(vector));
    }
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = i < rows ? cols : 0; j < from.cols; ++j) to[j * to_row + i] = from(i, j);
}

/// Copies n elements, whole vectors. Rows of a panel are short and far apart: with wide loads more of them are under
/// way to the cache at the same time.
template <class T>
void copy_vectors(T* to, T const* from, Index n) {
  typedef T vector __attribute__((vector_size(register_block<T>::bytes)));
  for (Index j = 0; j < n; j += register_block<T>::lanes) {
    vector v;
    std::memcpy(&v, from + j, sizeof v);
    std::memcpy(to + j, &v, sizeof v);
  }
}

/// c = a b or c += a b; c has col_stride 1, a and b any strides. Panels of b that are not rows of whole vectors, close
/// to each other, are copied to the stack first.
template <class T>
void multiply_panels(view<T> c, view<T const> a, view<T const> b, bool accumulate) {
  using block = register_block<T>;
  alignas(64) T packed[block::depth * block::cols];
  for (Index k = 0; k < a.cols; k += block::depth) {
    Index const depth = (std::min)(block::depth, a.cols - k);
    for (Index j = 0; j < c.cols; j += block::cols) {
      Index const cols = (std::min)(block::cols, c.cols - j),
                  width = (cols + block::lanes - 1) / block::lanes * block::lanes;
      view<T const> const panel = b.middle_rows(k, depth).middle_cols(j, cols);
      T const* from = panel.data;
      Index row = panel.row_stride;
      bool const rows_near = row * static_cast<Index>(sizeof(T)) <= 1024 || c.rows <= 2 * block::rows;
      if (panel.col_stride != 1 || cols != width || !rows_near) {
        if (panel.col_stride == 1 && cols == width) {
          for (Index i = 0; i < depth; ++i) copy_vectors(packed + i * width, panel.row(i), width);
        } else if (panel.col_stride == 1) {
          for (Index i = 0; i < depth; ++i) std::copy_n(panel.row(i), cols, packed + i * width);
        } else {
          transpose<T>(packed, width, panel.transposed());
        }
        if (cols != width)
          for (Index i = 0; i < depth; ++i) std::fill_n(packed + i * width + cols, width - cols, T(0));
        from = packed;
        row = width;
      }
      multiply_panel<T>(c.middle_cols(j, cols), a.middle_cols(k, depth), from, row, accumulate || k > 0);
    }
  }
}

}  // namespace detail

}  // namespace headmix::cpu
