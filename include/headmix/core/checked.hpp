#pragma once
// SPDX-License-Identifier: MIT
// Arithmetic of extents and counts that fails rather than wraps around: sizes come from files and users, and a wrapped
// product would be believed by everything after it.

#include <limits>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

/// No value of a program may have more elements, and no extent may be larger: sums of all their bytes and of what
/// kernels add fit into an Index.
inline constexpr Index max_elements = (std::numeric_limits<Index>::max)() >> 15;
/// Sequences and what lists number are numbered by an Int.
inline constexpr Index max_int = (std::numeric_limits<Int>::max)();

/// A number whose sums, differences and products are errors, with the operands, where no Index can hold them.
struct checked {
  /// The number.
  Index value;

  /// Any number.
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

/// Bytes of n elements of `element` bytes each; an error where no Index can hold them, or n is negative.
[[nodiscard]] constexpr std::size_t checked_bytes(checked n, std::size_t element) {
  if (0 > n.value) fail("sizes must not be negative; found ", n.value);
  return static_cast<std::size_t>((n * static_cast<Index>(element)).value);
}

namespace detail {
/// The product of extents of a view: checked on the host. On a GPU views are made of others that were.
HEADMIX_HD constexpr Index extent_product(Index a, Index b) {
#ifdef __CUDA_ARCH__
  return a * b;
#else
  return (checked(a) * b).value;
#endif
}
}  // namespace detail

}  // namespace headmix
