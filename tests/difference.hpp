#pragma once
// SPDX-License-Identifier: MIT
// Differences between results and expected numbers.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headmix/core/view.hpp"

namespace headmix::test {

/// || found - expected || / || expected ||, Frobenius; the absolute norm if the expected one is 0. Infinity unless
/// non-finite numbers are equal.
template <class A, class B>
double relative_error(std::vector<A> const& found, std::vector<B> const& expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (found.size() != expected.size()) return infinity;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto const a = static_cast<double>(found[i]), b = static_cast<double>(expected[i]);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      if (!(a == b || (std::isnan(a) && std::isnan(b)))) return infinity;
      continue;
    }
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

inline double largest_difference(view<double const> a, view<double const> b) {
  double d = 0;
  for (Index i = 0; i < a.size(); ++i) d = (std::max)(d, std::abs(a.data[i] - b.data[i]));
  return d;
}

}  // namespace headmix::test
