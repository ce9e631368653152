#pragma once
// SPDX-License-Identifier: MIT
// view<T>: a strided matrix, or a stack of matrices (one per expert), in memory that it does not own. Kernels receive
// views by value; nothing here allocates or checks bounds. Products of extents are checked when a view is constructed
// on the host.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "headmix/core/checked.hpp"
#include "headmix/core/config.hpp"

namespace headmix {

/// `count` matrices of `rows` x `cols`; strides are in elements, any sign, zero allowed for reading.
/// A plain matrix has count 1. Fast paths need col_stride 1.
template <class T>
struct view {
  T* data = nullptr;
  /// Extents.
  Index count = 1, rows = 0, cols = 0;
  /// Distances in elements between consecutive matrices, rows and columns.
  Index stack_stride = 0, row_stride = 0, col_stride = 1;

  view() = default;
  /// A contiguous row-major matrix.
  HEADMIX_HD constexpr view(T* p, Index r, Index c)
      : data(p), rows(r), cols(c), stack_stride(detail::extent_product(r, c)), row_stride(c), col_stride(1) {}
  /// A contiguous stack of row-major matrices.
  HEADMIX_HD constexpr view(T* p, Index n, Index r, Index c)
      : data(p), count(n), rows(r), cols(c), stack_stride(detail::extent_product(r, c)), row_stride(c), col_stride(1) {
    static_cast<void>(detail::extent_product(n, stack_stride));
  }
  /// Conversion from a view of mutable elements to one of const elements.
  template <class U>
  requires(std::is_same_v<T, U const>) HEADMIX_HD constexpr view(view<U> const& v)
      : data(v.data),
        count(v.count),
        rows(v.rows),
        cols(v.cols),
        stack_stride(v.stack_stride),
        row_stride(v.row_stride),
        col_stride(v.col_stride) {}

  /// Element (i, j) of the first matrix.
  HEADMIX_HD constexpr T& operator()(Index i, Index j) const { return data[i * row_stride + j * col_stride]; }
  /// Matrix `e` of the stack.
  HEADMIX_HD constexpr view operator[](Index e) const {
    view m = *this;
    m.data = at(e * stack_stride);
    m.count = 1;
    return m;
  }
  /// The first element of row i, where rows are numbered across all matrices of the stack.
  HEADMIX_HD constexpr T* row(Index i) const {
    return at(count == 1 ? i * row_stride : (i / rows) * stack_stride + (i % rows) * row_stride);
  }
  /// Rows i .. i + n - 1 of a matrix.
  [[nodiscard]] HEADMIX_HD constexpr view middle_rows(Index i, Index n) const {
    view m = *this;
    m.data = at(i * row_stride);
    m.rows = n;
    return m;
  }
  /// Columns j .. j + n - 1.
  [[nodiscard]] HEADMIX_HD constexpr view middle_cols(Index j, Index n) const {
    view m = *this;
    m.data = at(j * col_stride);
    m.cols = n;
    return m;
  }
  [[nodiscard]] HEADMIX_HD constexpr view transposed() const {
    view m = *this;
    m.rows = cols;
    m.cols = rows;
    m.row_stride = col_stride;
    m.col_stride = row_stride;
    return m;
  }
  /// Number of elements.
  [[nodiscard]] HEADMIX_HD constexpr Index size() const { return count * rows * cols; }
  /// True if the elements are in row-major order without gaps.
  [[nodiscard]] HEADMIX_HD constexpr bool contiguous() const {
    return (cols <= 1 || col_stride == 1) && (rows <= 1 || row_stride == cols) &&
           (count <= 1 || stack_stride == rows * cols);
  }
  /// True if every row begins at a multiple of `bytes`, a power of two.
  [[nodiscard]] HEADMIX_HD bool aligned(std::size_t bytes) const {
    auto const offset =
        static_cast<std::size_t>(row_stride) | (count == 1 ? 0 : static_cast<std::size_t>(stack_stride));
    return (reinterpret_cast<std::uintptr_t>(data) | offset * sizeof(T)) % bytes == 0;
  }

 private:
  /// Offsets a data pointer; null stays null.
  [[nodiscard]] HEADMIX_HD constexpr T* at(Index offset) const { return data == nullptr ? data : data + offset; }
};

/// A matrix view from rows and columns.
template <class T>
view(T*, Index, Index) -> view<T>;
/// A stack view from a number of matrices, rows and columns.
template <class T>
view(T*, Index, Index, Index) -> view<T>;

/// The rows of several concatenated sequences. Sequence b has the rows [begin(b), end(b)). Without offsets all
/// sequences have equal length: a uniform batch needs no array.
struct segments {
  Int const* offsets = nullptr;  ///< count + 1 ascending row numbers, or null for equal lengths
  Index count = 1;               ///< number of sequences
  Index rows = 0;                ///< rows in total
  Int const* past = nullptr;     ///< number of earlier positions of each sequence, or null for none

  /// First row of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index begin(Index b) const { return offsets ? offsets[b] : b * (rows / count); }
  /// One past the last row of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index end(Index b) const { return begin(b + 1); }
  /// The number of rows of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index length(Index b) const { return end(b) - begin(b); }
  /// The position of the first row of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index first_position(Index b) const { return past ? past[b] : 0; }

  /// Equality of pointers and extents, not of the offsets that they point to.
  friend constexpr bool operator==(segments const&, segments const&) = default;
};

/// `count` sequences of `length` rows each.
[[nodiscard]] constexpr segments uniform(Index count, Index length) {
  return {nullptr, count, (checked(count) * length).value};
}
/// Ragged sequences: `offsets` holds count + 1 ascending row numbers that begin with 0.
[[nodiscard]] inline segments ragged(Int const* offsets, Index count) {
  return {offsets, count, offsets != nullptr && count > 0 ? offsets[count] : 0};
}
/// Ragged sequences with offsets in device memory, which the host cannot read. The last offset must be `rows`.
[[nodiscard]] constexpr segments ragged(Int const* offsets, Index count, Index rows) { return {offsets, count, rows}; }

}  // namespace headmix
