#pragma once
// SPDX-License-Identifier: MIT
// The product of a panel of b on one thread: a block of c stays in vector registers while the depth runs, a is read
// element by element, b by whole vectors. The rows of a and c may lie anywhere, so that what experts read and write is
// neither gathered nor scattered.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "headmix/backend/cpu/simd.hpp"
#include "headmix/backend/cpu/tuning.hpp"
#include "headmix/core/config.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu::inline HEADMIX_ISA {

/// Extents of the register block for T: `rows` x (`vectors` vectors of `lanes` elements).
template <class T>
struct register_block {
  static constexpr int rows = tuning::block_rows, vectors = tuning::block_vectors;
  static constexpr int bytes = vector_bytes, lanes = bytes / static_cast<int>(sizeof(T));
  static constexpr Index cols = vectors * lanes;
  static constexpr Index depth = tuning::panel_depth;  // of a panel of b
  /// The depth of panels of a product of so much.
  [[nodiscard]] static constexpr Index depth_of(Index whole) {
    return whole > depth ? tuning::deep_panel_depth : depth;
  }
};

namespace detail {

/// Rows that begin `stride` elements after each other.
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

/// How the register block reads a: R rows of successive elements,
template <int R, class T>
struct left_rows {
  T const* row[R];
  [[nodiscard]] T operator()(int r, Index k) const { return row[r][k]; }
};
/// or anything with two strides,
template <class T>
struct left_strides {
  T const* data;
  Index row, col;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r * row + k * col]; }
};
/// or R rows of which the elements of a column follow each other; column k is the one that columns[k] says.
template <int R, class T, class Columns>
struct left_columns {
  T const* data;
  Columns columns;
  [[nodiscard]] T operator()(int r, Index k) const { return data[r + columns[k] * R]; }
};
struct all_columns {
  Index first = 0;
  [[nodiscard]] Index operator[](Index k) const { return first + k; }
  [[nodiscard]] all_columns operator+(Index k) const { return {first + k}; }
};

/// What is read in the course of a product for the next ones.
template <class T>
struct rows_to_fetch {
  T const* const* rows = nullptr;  ///< `count` of these, `width` elements from `col` on, come nearer to the caches,
  Index col = 0, width = 0, count = 0;
  std::byte const* panel = nullptr;  ///< so do `panel_rows` rows, `panel_stride` bytes apart, each some lines,
  Index panel_stride = 0, panel_rows = 0, panel_lines = 0;
  T* copy = nullptr;  ///< or, where this is memory, are copied there and come nearer some rows before that

  void read_panel_row(Index r) const {
    std::byte const* const row = panel + r * panel_stride;
    std::byte const* const fetched = copy ? row + tuning::copy_ahead * panel_stride : row;
    for (Index l = 0; l < panel_lines; ++l) __builtin_prefetch(fetched + l * line_bytes);
    if (copy) copy_row(r, reinterpret_cast<T const*>(row));
  }

 private:
  HEADMIX_WHOLE_VECTORS void copy_row(Index r, T const* from) const {
    constexpr Index each = register_block<T>::cols;
    for (Index j = 0; j < each; j += lanes<T>) store(copy + r * each + j, load(from + j));
  }
};
/// Reads it piece by piece, in the course of a loop over a depth: few lines can be under way at a time.
template <class T>
class line_fetcher {
 public:
  line_fetcher(rows_to_fetch<T> const& next, Index depth) : next_(next), depth_(depth) { begin_row(); }
  /// Reads some, and returns how far to go on before it is called again.
  Index step(Index k) {
    if (row_ < next_.count) {
      __builtin_prefetch(from_);
      __builtin_prefetch(from_ + line);
      from_ += 2 * line;
      if (from_ >= end_) ++row_, begin_row();
      return 4;
    }
    Index const left = next_.panel_rows - panel_row_;
    if (left == 0) return depth_ - k;
    next_.read_panel_row(panel_row_++);
    return (std::max)((depth_ - k) / left, Index{4});
  }
  /// Reads what is left.
  void finish() {
    for (; panel_row_ < next_.panel_rows; ++panel_row_) next_.read_panel_row(panel_row_);
  }

 private:
  static constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  void begin_row() {
    if (row_ < next_.count) from_ = next_.rows[row_] + next_.col, end_ = from_ + next_.width;
  }
  rows_to_fetch<T> const& next_;
  Index depth_, row_ = 0, panel_row_ = 0;
  T const *from_ = nullptr, *end_ = nullptr;
};

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

/// Left operands of a product. `block<R>(i, rows, k)` reads R rows from row i on, of which only `rows` exist, from
/// column k on; the last one stands in for the others and is written more than once. This one has rows of successive
/// elements.
template <class Rows>
struct left_operand {
  Rows rows;

  template <int R>
  [[nodiscard]] auto block(Index i, int n, Index k) const {
    left_rows<R, std::remove_cvref_t<decltype(*rows(0))>> left;
    for (int r = 0; r < R; ++r) left.row[r] = rows(i + (std::min)(r, n - 1)) + k;
    return left;
  }
};
/// A matrix with any strides, where nothing can stand in for a missing row.
template <class T>
struct left_matrix {
  view<T const> a;

  template <int R>
  [[nodiscard]] left_strides<T> block(Index i, int, Index k) const {
    return {&a(i, k), a.row_stride, a.col_stride};
  }
};
/// Elements that hold n of them: an odd number of cache lines. Rows so far from each other do not share places of the
/// cache, as those a power of 2 apart do.
template <class T>
[[nodiscard]] constexpr Index odd_lines(Index n) {
  constexpr Index line = line_bytes / static_cast<Index>(sizeof(T));
  return ((n + line - 1) / line | 1) * line;
}
/// A copy of a matrix whose columns lie closer than its rows. A strip has as many rows as a register block, column by
/// column, so that a product reads it from begin to end, or those columns that a list names.
template <class T, class Columns = all_columns>
struct left_strips {
  static constexpr int rows = register_block<T>::rows;
  T const* data;
  Index stride;  ///< from strip to strip
  Columns columns = {};

  /// Elements from strip to strip for so many columns.
  [[nodiscard]] static constexpr Index stride_of(Index depth) { return odd_lines<T>(depth * rows); }
  [[nodiscard]] static constexpr Index size(Index m, Index depth) { return (m + rows - 1) / rows * stride_of(depth); }
  template <int R>
  [[nodiscard]] left_columns<R, T, Columns> block(Index i, int, Index k) const {
    static_assert(R == rows);
    return {data + i / rows * stride, columns + k};
  }
};
template <class A>
inline constexpr bool is_strips = false;
template <class T, class Columns>
inline constexpr bool is_strips<left_strips<T, Columns>> = true;

template <int R, int V, class T, class A, class C>
void multiply_block(int rows, Index i, Index k, Index depth, A const& a, T const* b, Index b_row, C c, bool accumulate,
                    rows_to_fetch<T> const& next) {
  T* to[R];
  for (int r = 0; r < R; ++r) to[r] = c((std::min)(r, rows - 1));
  multiply_registers<R, V>(depth, a.template block<R>(i, rows, k), b, b_row, to, accumulate, next);
}

/// Brings a panel of b nearer to the caches, or copies it, some rows in the course of every step of another product.
/// @tparam B  of the panel, T of the product
template <class T, class B = T const>
class read_ahead {
 public:
  /// @param copy  memory for a copy; null for none
  read_ahead(view<B> panel, Index steps, T* copy = nullptr)
      : panel_(panel), copy_(copy), rows_(steps > 0 ? (panel.rows + steps - 1) / steps : 0) {}
  rows_to_fetch<T> step(rows_to_fetch<T> next = {}) {
    constexpr Index size = sizeof(B);
    next.panel_rows = (std::min)(rows_, panel_.rows - next_);
    if (next.panel_rows == 0) return next;
    next.panel = reinterpret_cast<std::byte const*>(panel_.row(next_));
    next.panel_stride = panel_.row_stride * size;
    next.panel_lines = (panel_.cols * size + line_bytes - 1) / line_bytes;
    if (copy_) next.copy = copy_ + next_ * register_block<T>::cols;
    next_ += next.panel_rows;
    return next;
  }

 private:
  view<B> panel_;
  T* copy_;
  Index rows_, next_ = 0;
};
template <class T>
struct read_nothing {
  static rows_to_fetch<T> step() { return {}; }
};
template <class T, class B, class Rows>
struct read_both {
  read_ahead<T, B> panel;
  Rows rows;
  rows_to_fetch<T> step() { return panel.step(rows.step()); }
};
/// What multiply_panels reads ahead besides b: a reader for [k, k + depth) and the panel that begins with a column.
template <class T>
struct no_rows_ahead {
  read_nothing<T> operator()(Index, Index, Index) const { return {}; }
};

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

}  // namespace detail

}  // namespace headmix::cpu::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
