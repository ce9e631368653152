#pragma once
// SPDX-License-Identifier: MIT
// Subsets of a fixed size in lexicographic order.

#include <limits>

#include "headmix/core/error.hpp"

namespace headmix {

/// The number of subsets of size k of n elements. An error if it exceeds the range of Index.
[[nodiscard]] constexpr Index binomial(Index n, Index k) {
  if (0 > k || k > n) return 0;
  Index c = 1;
  for (Index i = 1; i <= k; ++i) {
    if (c > (std::numeric_limits<Index>::max)() / (n - k + i)) fail("binomial(", n, ", ", k, ") is too large");
    c = c * (n - k + i) / i;
  }
  return c;
}

/// Element j, ascending, of the complement in 0 .. n - 1 of subset `number` of size k, in lexicographic order of
/// subsets. 0 <= number < binomial(n, k), 0 <= j < n - k.
[[nodiscard]] constexpr Index outside_of_subset(Index n, Index k, Index number, Index j) {
  for (Index element = 0; element < n; ++element) {
    // Subsets that contain this element come first.
    Index const with = binomial(n - element - 1, k - 1);
    if (k > 0 && number < with) {
      --k;
    } else {
      if (k > 0) number -= with;
      if (j-- == 0) return element;
    }
  }
  return -1;
}

}  // namespace headmix
