#pragma once
// SPDX-License-Identifier: MIT
// Checks of the numbers that a training is given: rates, betas, counts of steps.

#include <cmath>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix::detail {

/// Fails unless `holds`, which is what `expected` says in words of the setting x.
inline void check_setting(char const* whose, char const* name, double x, bool holds, char const* expected) {
  if (!holds) fail(whose, ": ", name, ": expected ", expected, ", found ", x);
}
/// Fails unless a rate is finite and not negative.
inline void check_rate(char const* whose, char const* name, double x) {
  check_setting(whose, name, x, x >= 0 && std::isfinite(x), "a finite number of at least 0");
}
/// Fails if a number of steps is negative.
inline void check_steps(char const* whose, Index steps) {
  if (0 > steps) fail(whose, ": set_steps(): expected at least 0, found ", steps);
}

}  // namespace headmix::detail
