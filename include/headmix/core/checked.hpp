#pragma once
// SPDX-License-Identifier: MIT
// Arithmetic of extents and counts that fails instead of wrapping around: sizes come from files and users, and no later
// code would notice a wrapped product.

#include <limits>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

/// The largest number of elements of a value, and the largest extent: sums of the bytes of all values and of scratch
/// memory fit into an Index.
inline constexpr Index max_elements = (std::numeric_limits<Index>::max)() >> 15;
/// The largest number of sequences and of list elements, whose numbers are Int.
inline constexpr Index max_int = (std::numeric_limits<Int>::max)();

/// A number with checked arithmetic: sums, differences and products outside of the range of Index are errors with both
/// operands.
struct checked {
  /// The number.
  Index value;

  /// Implicit conversion from any number.
  constexpr checked(Index n) : value(n) {}

  /// The product.
  friend constexpr checked operator*(checked a, checked b) {
    Index result = 0;
    if (__builtin_mul_overflow(a.value, b.value, &result)) refuse(a, " * ", b);
    return result;
  }
  /// The sum.
  friend constexpr checked operator+(checked a, checked b) {
    Index result = 0;
    if (__builtin_add_overflow(a.value, b.value, &result)) refuse(a, " + ", b);
    return result;
  }
  /// The difference.
  friend constexpr checked operator-(checked a, checked b) {
    Index result = 0;
    if (__builtin_sub_overflow(a.value, b.value, &result)) refuse(a, " - ", b);
    return result;
  }
  /// Adds b.
  constexpr checked& operator+=(checked b) { return *this = *this + b; }

 private:
  [[noreturn]] static void refuse(checked a, char const* operation, checked b) {
    fail("sizes are too large: ", a.value, operation, b.value, " is more than ", (std::numeric_limits<Index>::max)());
  }
};

/// Bytes of n elements of `element` bytes each; an error if n is negative or the bytes exceed the range of Index.
[[nodiscard]] constexpr std::size_t checked_bytes(checked n, std::size_t element) {
  if (0 > n.value) fail("sizes must not be negative; found ", n.value);
  return static_cast<std::size_t>((n * static_cast<Index>(element)).value);
}

namespace detail {
/// The product of extents of a view: checked on the host, unchecked on a GPU, where views derive from checked ones.
HEADMIX_HD constexpr Index extent_product(Index a, Index b) {
#ifdef __CUDA_ARCH__
  return a * b;
#else
  return (checked(a) * b).value;
#endif
}
}  // namespace detail

}  // namespace headmix
