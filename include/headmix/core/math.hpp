#pragma once
// SPDX-License-Identifier: MIT
// Branch-free functions for pointwise operations, overloaded for vectors of numbers like those of <cmath>; and
// reduction of angles.

#include <cmath>
#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// max(a, b).
template <std::floating_point T>
HEADMIX_HD constexpr T maximum(T a, T b) {
  return a > b ? a : b;
}
/// 1 where a > 0, else 0.
template <std::floating_point T>
HEADMIX_HD constexpr T unit_step(T a) {
  return a > T(0) ? T(1) : T(0);
}
/// The angle, in radians, minus whole turns: in [-3 pi, pi], with an error of 2e-16 |angle|. Rounding to float after
/// this reduction keeps the digits of an angle of many turns. Angles of 2^52 turns and more have no fraction and are
/// returned unchanged.
HEADMIX_HD inline double within_a_turn(double angle) {
  double const turns = angle * 0.15915494309189535 + 0.5;
  if (!(turns > -0x1p52 && turns < 0x1p52)) return angle;
  return angle - 6.283185307179586 * static_cast<double>(static_cast<std::int64_t>(turns));  // std::floor may be a call
}
/// 1 / (1 + e^-a). Always inline: a call would pass vectors through memory.
template <class T>
__attribute__((always_inline)) HEADMIX_HD inline T logistic(T a) {
  using std::exp;
  return T(1) / (T(1) + exp(-a));
}

}  // namespace headmix
