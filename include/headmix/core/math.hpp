#pragma once
// SPDX-License-Identifier: MIT
// Functions without branches that pointwise operations use. Vectors of numbers overload them and those of <cmath>.

#include <cmath>
#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// The larger one.
template <std::floating_point T>
HEADMIX_HD constexpr T maximum(T a, T b) {
  return a > b ? a : b;
}
/// 1 where a > 0, else 0.
template <std::floating_point T>
HEADMIX_HD constexpr T unit_step(T a) {
  return a > T(0) ? T(1) : T(0);
}
/// 1 / (1 + e^-a). Always inline: a call of it passes vectors through memory.
template <class T>
__attribute__((always_inline)) HEADMIX_HD inline T logistic(T a) {
  using std::exp;
  return T(1) / (T(1) + exp(-a));
}

}  // namespace headmix
