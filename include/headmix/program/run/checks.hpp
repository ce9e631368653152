#pragma once
// SPDX-License-Identifier: MIT
// Checks of extents, addresses and sequences that a caller gives to a program.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/core/view.hpp"

namespace headmix::detail {

/// True where no extent is negative or larger than max_elements, and neither is their product.
[[nodiscard]] constexpr bool can_be_extents(Index count, Index rows, Index cols) {
  if (0 > count || 0 > rows || 0 > cols) return false;
  if (count > max_elements || rows > max_elements || cols > max_elements) return false;
  return count == 0 || rows == 0 || cols == 0 || (rows <= max_elements / cols && rows * cols <= max_elements / count);
}
/// Fails unless a value can have these extents, before somebody allocates it.
inline void check_extents_of(std::string_view name, Index count, Index rows, Index cols, std::string_view before = "") {
  if (can_be_extents(count, rows, cols)) return;
  bool const negative = 0 > count || 0 > rows || 0 > cols;
  fail(before, name, " would have the extents ", count == 1 ? "" : message(count, " x "), rows, " x ", cols,
       negative ? ", of which one is negative"
                : message(", more than the ", max_elements, " elements that a value may have"));
}

/// True where an address is a multiple of so many bytes.
[[nodiscard]] inline bool is_aligned(void const* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}
/// Fails unless n numbers of so many bytes begin at a multiple of them; where n is 0, nothing lies there.
inline void check_alignment(std::string_view name, void const* data, std::size_t bytes, Index n,
                            std::string_view before = "") {
  if (n == 0 || is_aligned(data, bytes)) return;
  fail(before, name, ": expected memory aligned to ", bytes, " bytes, found an address that is ",
       reinterpret_cast<std::uintptr_t>(data) % bytes, " bytes behind a multiple of that");
}

/// True for finite numbers above 0.
inline bool is_positive(double number) { return number > 0 && std::isfinite(number); }
/// The first number of a view that is not positive, or 1 where all are. Elements have so many bytes.
inline double first_not_positive(view<std::byte> const& v, std::size_t bytes, double (*read)(std::byte const*)) {
  for (Index c = 0; c < v.count; ++c) {
    for (Index i = 0; i < v.rows; ++i) {
      for (Index j = 0; j < v.cols; ++j) {
        Index const element = c * v.stack_stride + i * v.row_stride + j * v.col_stride;
        double const number = read(v.data + element * static_cast<Index>(bytes));
        if (!is_positive(number)) return number;
      }
    }
  }
  return 1;
}

/// Fails unless the sequences cover their rows; `readable` says whether the host can look at the offsets.
inline void check_segments(char const* name_source, segments const& s, bool readable) {
  auto const what = [&] { return unqualified(name_source); };  // only for messages: it takes time
  if (s.count < 1) fail(what(), ": there must be at least one sequence, found ", s.count);
  if (s.count > max_int) fail(what(), ": expected at most ", max_int, " sequences, found ", s.count);
  if (0 > s.rows) fail(what(), ": the sequences have a negative number of rows: ", s.rows);
  if (s.rows > max_elements) fail(what(), ": expected at most ", max_elements, " rows, found ", s.rows);
  if (!is_aligned(s.offsets, alignof(Int))) {
    check_alignment(what(), s.offsets, alignof(Int), s.count, "the offsets of ");
  }
  if (s.offsets == nullptr) {
    if (s.rows % s.count != 0) {
      fail(what(), ": ", s.rows, " rows do not divide evenly into ", s.count, " sequences; give offsets");
    }
  } else if (readable) {
    if (s.offsets[0] != 0) fail(what(), ": offsets must begin with 0; offset 0 is ", s.offsets[0]);
    for (Index b = 0; b < s.count; ++b) {
      if (s.offsets[b + 1] < s.offsets[b]) {
        fail(what(), ": offsets must never fall; offset ", b + 1, " is ", s.offsets[b + 1], " after ", s.offsets[b]);
      }
    }
    if (s.offsets[s.count] != s.rows) {
      fail(what(), ": the offsets end at ", s.offsets[s.count], ", there are ", s.rows, " rows");
    }
  }
  if (reinterpret_cast<std::uintptr_t>(s.past) % alignof(Int) != 0) {
    check_alignment(what(), s.past, alignof(Int), s.count, "the positions of ");
  }
  for (Index b = 0; readable && s.past != nullptr && b < s.count; ++b) {
    if (0 > s.past[b]) fail(what(), ": ", s.past[b], " rows came before those of sequence ", b, "; expected 0 or more");
  }
}

}  // namespace headmix::detail
