#pragma once
// SPDX-License-Identifier: MIT
// Dense products on one thread: a block of c stays in vector registers while the depth runs, a is read element by
// element, b by whole vectors. The rows of a and c may lie anywhere, so that what experts read and write is neither
// gathered nor scattered: copied are only panels of b, and an a whose columns lie closer than its rows.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "headmix/core/config.hpp"
#include "headmix/core/view.hpp"

// clang splits vectors of 64 bytes in two unless the function says that it wants them whole.
#if defined(__clang__) && defined(__AVX512F__)
#define HEADMIX_WHOLE_VECTORS __attribute__((__min_vector_width__(512)))
#else
#define HEADMIX_WHOLE_VECTORS
#endif

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
  static constexpr Index depth = 512;  // of a panel of b, which must fit into the L2 cache
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

/// Rows that come nearer to the caches while others are multiplied: `width` elements of each, from `col` on.
template <class T>
struct rows_to_fetch {
  T const* const* rows = nullptr;
  Index col = 0, width = 0, count = 0;
};

/// c (R rows of V vectors) = or += a b over the given depth. The loops over R and V are unrolled: every sum is a
/// register. So is a part of the loop over k: what it costs itself would show where two threads share a core. Lines
/// of the rows to fetch are asked for now and then, as long as there is depth: few can be under way at a time.
template <int R, int V, class T, class Left>
HEADMIX_WHOLE_VECTORS void multiply_registers(Index depth, Left const& a, T const* b, Index b_row, T* const* c,
                                              bool accumulate, rows_to_fetch<T> const& next = {}) {
  constexpr int lanes = register_block<T>::lanes;
  typedef T vector __attribute__((vector_size(register_block<T>::bytes)));
  vector sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (accumulate) {
        std::memcpy(&sum[r][v], c[r] + v * lanes, sizeof(vector));
      } else {
        sum[r][v] = vector{};
        __builtin_prefetch(c[r] + v * lanes, 1);  // else the stores at the end would wait for the cache lines
      }
    }
  auto const multiply_add = [&](Index k) __attribute__((always_inline)) {
    vector right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) std::memcpy(&right[v], b + k * b_row + v * lanes, sizeof(vector));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      T const left = a(r, k);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  };
  Index k = 0;
  if constexpr (R == register_block<T>::rows) {
    constexpr Index steps = 4, line = 64 / static_cast<Index>(sizeof(T));
    for (Index r = 0; r < next.count; ++r) {
      T const *from = next.rows[r] + next.col, *const end = from + next.width;
      for (; from < end && k + steps <= depth; k += steps, from += 2 * line) {
        __builtin_prefetch(from);
        __builtin_prefetch(from + line);
#pragma GCC unroll 4
        for (Index s = 0; s < steps; ++s) multiply_add(k + s);
      }
    }
  }
#pragma GCC unroll 4
  for (; k < depth; ++k) multiply_add(k);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) std::memcpy(c[r] + v * lanes, &sum[r][v], sizeof(vector));
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
/// A copy of a matrix whose columns lie closer than its rows. A strip has as many rows as a register block, column by
/// column, so that a product reads it from begin to end, or those columns that a list names.
template <class T, class Columns = all_columns>
struct left_strips {
  static constexpr int rows = register_block<T>::rows;
  T const* data;
  Index stride;  ///< from strip to strip
  Columns columns = {};

  /// Elements from strip to strip for so many columns: an odd number of cache lines, so that strips do not share places
  /// of the cache while they are written.
  [[nodiscard]] static constexpr Index stride_of(Index depth) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    return ((depth * rows + line - 1) / line | 1) * line;
  }
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

/// Copies m rows and `depth` columns to strips; column(k) is where column k begins, and its elements lie `step` apart.
template <class T, class F>
void pack_strips(T* to, Index m, Index depth, Index step, F column) {
  constexpr Index rows = left_strips<T>::rows, ahead = 4, line = 64 / static_cast<Index>(sizeof(T));
  Index const stride = left_strips<T>::stride_of(depth), whole = step == 1 ? m / rows * rows : 0;
  for (Index k = 0; k < depth; ++k) {
    T const* const from = column(k);
    if (k + ahead < depth && step == 1)
      for (T const *p = column(k + ahead), *const end = p + m; p < end; p += line) __builtin_prefetch(p);
    T* strip = to + k * rows;
    for (Index i = 0; i < whole; i += rows, strip += stride) std::memcpy(strip, from + i, rows * sizeof(T));
    for (Index i = whole; i < m; i += rows, strip += stride)
      for (Index r = 0; r < rows; ++r) strip[r] = from[(std::min)(i + r, m - 1) * step];
  }
}

template <int R, int V, class T, class A, class C>
void multiply_block(int rows, Index i, Index k, Index depth, A const& a, T const* b, Index b_row, C c, bool accumulate,
                    rows_to_fetch<T> const& next) {
  T* to[R];
  for (int r = 0; r < R; ++r) to[r] = c((std::min)(r, rows - 1));
  multiply_registers<R, V>(depth, a.template block<R>(i, rows, k), b, b_row, to, accumulate, next);
}

/// Brings a panel of b nearer to the caches, some rows at every step of another product. A step may leave rows to be
/// fetched in the course of it.
template <class T>
class read_ahead {
 public:
  read_ahead(view<T const> panel, Index steps)
      : panel_(panel), rows_(steps > 0 ? (panel.rows + steps - 1) / steps : 0) {}
  rows_to_fetch<T> step() {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    for (Index const end = (std::min)(next_ + rows_, panel_.rows); next_ < end; ++next_)
      for (Index j = 0; j < panel_.cols; j += line) __builtin_prefetch(panel_.row(next_) + j, 0, 2);
    return {};
  }

 private:
  view<T const> panel_;
  Index rows_, next_ = 0;
};
template <class T>
struct read_nothing {
  static rows_to_fetch<T> step() { return {}; }
};
template <class T, class Rows>
struct read_both {
  read_ahead<T> panel;
  Rows rows;
  rows_to_fetch<T> step() {
    panel.step();
    return rows.step();
  }
};
/// What multiply_panels reads ahead besides b: a reader for columns [col, col + cols) and a part of the depth.
template <class T>
struct no_rows_ahead {
  read_nothing<T> operator()(Index, Index, Index, Index) const { return {}; }
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

/// The first (half 0) or the last halves of two vectors, element by element from one and the other.
template <int Half, class V, std::size_t... J>
V interleave(V const& a, V const& b, std::index_sequence<J...>) {
  constexpr std::size_t n = sizeof...(J), begin = Half * n / 2;
  return __builtin_shufflevector(a, b, (begin + J / 2 + J % 2 * n)...);
}

/// Transposes a square with as many rows as a vector has elements. To interleave the rows with those half the square
/// behind them moves a bit of the row's number into that of the column: after all bits have moved, rows are columns.
template <class T>
HEADMIX_WHOLE_VECTORS void transpose_square(T* to, Index to_row, T const* from, Index from_row) {
  typedef T vector __attribute__((vector_size(register_block<T>::bytes)));
  constexpr int n = register_block<T>::lanes;
  using order = std::make_index_sequence<n>;
  vector row[n], mixed[n];
#pragma GCC unroll 16
  for (int r = 0; r < n; ++r) std::memcpy(&row[r], from + r * from_row, sizeof(vector));
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
  for (int r = 0; r < n; ++r) std::memcpy(to + r * to_row, &row[r], sizeof(vector));
}

/// to (row-major, `to_row` elements from row to row) = the transpose of `from`.
template <class T>
void transpose(T* to, Index to_row, view<T const> from) {
  constexpr Index n = register_block<T>::lanes;
  Index const rows = from.col_stride == 1 ? from.rows / n * n : 0, cols = from.cols / n * n;
  for (Index i = 0; i < rows; i += n)
    for (Index j = 0; j < cols; j += n) transpose_square(to + j * to_row + i, to_row, &from(i, j), from.row_stride);
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = i < rows ? cols : 0; j < from.cols; ++j) to[j * to_row + i] = from(i, j);
}

/// Copies n elements, whole vectors. Rows of a panel are short and far apart: with wide loads more of them are under
/// way to the cache at the same time.
template <class T>
HEADMIX_WHOLE_VECTORS void copy_vectors(T* to, T const* from, Index n) {
  typedef T vector __attribute__((vector_size(register_block<T>::bytes)));
  for (Index j = 0; j < n; j += register_block<T>::lanes) {
    vector v;
    std::memcpy(&v, from + j, sizeof v);
    std::memcpy(to + j, &v, sizeof v);
  }
}

/// Copies a panel of b to rows of `width` elements, zeros behind the last column.
template <class T>
void pack_panel(T* to, Index width, view<T const> panel) {
  if (panel.col_stride != 1) {
    transpose<T>(to, width, panel.transposed());
  } else if (panel.cols == width) {
    for (Index i = 0; i < panel.rows; ++i) copy_vectors(to + i * width, panel.row(i), width);
  } else {
    for (Index i = 0; i < panel.rows; ++i) std::copy_n(panel.row(i), panel.cols, to + i * width);
  }
  if (panel.cols != width)
    for (Index i = 0; i < panel.rows; ++i) std::fill_n(to + i * width + panel.cols, width - panel.cols, T(0));
}

/// c = a b or c += a b for m rows c(i) of successive elements and any b. Panels of b are copied to the stack first,
/// unless they lie like that already or are hardly used.
template <class T, class A, class C, class Rows = no_rows_ahead<T>>
void multiply_panels(Index m, C c, A const& a, view<T const> b, bool accumulate, Rows rows_ahead = {}) {
  using block = register_block<T>;
  alignas(64) T packed[block::depth * block::cols];
  for (Index k = 0; k < b.rows; k += block::depth) {
    Index const depth = (std::min)(block::depth, b.rows - k);
    for (Index j = 0, next; j < b.cols; j = next) {
      int const vectors = panel_vectors<T>(b.cols - j);
      Index const width = vectors * block::lanes, cols = (std::min)(width, b.cols - j);
      next = j + cols;
      view<T const> const panel = b.middle_rows(k, depth).middle_cols(j, cols);
      T const* from = panel.data;
      Index row = panel.row_stride;
      if (panel.col_stride != 1 || cols != width || (row != width && m > 2 * block::rows)) {
        pack_panel(packed, width, panel);
        from = packed;
        row = width;
      }
      view<T const> ahead(nullptr, 0, 0);
      if (b.col_stride == 1) {
        if (next < b.cols) {
          ahead = b.middle_rows(k, depth).middle_cols(next, (std::min)(block::cols, b.cols - next));
        } else if (k + depth < b.rows) {
          ahead = b.middle_rows(k + depth, (std::min)(block::depth, b.rows - k - depth))
                      .middle_cols(0, (std::min)(block::cols, b.cols));
        }
      }
      multiply_panel<T>(
          m, cols, vectors, k, depth, a, from, row, [&c, j](Index i) { return c(i) + j; }, accumulate || k > 0,
          read_both<T, decltype(rows_ahead(k, depth, j, cols))>{read_ahead<T>(ahead, m / block::rows),
                                                                rows_ahead(k, depth, j, cols)});
    }
  }
}

/// The same for matrices: c has col_stride 1.
template <class T>
void multiply_panels(view<T> c, view<T const> a, view<T const> b, bool accumulate) {
  using block = register_block<T>;
  auto const rows_from = [&c](Index i) { return strided_rows<T>{c.row(i), c.row_stride}; };
  if (a.col_stride == 1) {
    left_operand<strided_rows<T const>> const left{{a.data, a.row_stride}};
    return multiply_panels<T>(c.rows, rows_from(0), left, b, accumulate);
  }
  if (2 * block::rows > c.rows || block::cols >= b.cols)
    return multiply_panels<T>(c.rows, rows_from(0), left_matrix<T>{a}, b, accumulate);
  // Strips are worth their copies where several panels of b use them.
  constexpr Index height = 32 * block::rows, depth = 128;
  alignas(64) T strips[left_strips<T>::size(height, depth)];
  for (Index i = 0; i < c.rows; i += height)
    for (Index k = 0; k < a.cols; k += depth) {
      Index const m = (std::min)(height, c.rows - i), n = (std::min)(depth, a.cols - k);
      pack_strips<T>(strips, m, n, a.row_stride, [&](Index q) { return &a(i, k + q); });
      multiply_panels<T>(m, rows_from(i), left_strips<T>{strips, left_strips<T>::stride_of(n)}, b.middle_rows(k, n),
                         accumulate || k > 0);
    }
}

}  // namespace detail

}  // namespace headmix::cpu
