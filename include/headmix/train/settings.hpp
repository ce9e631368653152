#pragma once
// SPDX-License-Identifier: MIT
// Checks of the numbers that a training is given: rates, betas, counts of steps.

#include <cmath>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix::detail {

/// An error unless `holds`; `expected` is the condition on the setting x in words.
inline void check_setting(char const* whose, char const* name, double x, bool holds, char const* expected) {
  if (!holds) fail(whose, ": ", name, ": expected ", expected, ", found ", x);
}
/// An error unless a rate is finite and not negative.
inline void check_rate(char const* whose, char const* name, double x) {
  check_setting(whose, name, x, x >= 0 && std::isfinite(x), "a finite number of at least 0");
}
/// An error if a number of steps is negative.
inline void check_steps(char const* whose, Index steps) {
  if (0 > steps) fail(whose, ": set_steps(): expected at least 0, found ", steps);
}

}  // namespace headmix::detail
