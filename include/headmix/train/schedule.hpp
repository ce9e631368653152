#pragma once
// SPDX-License-Identifier: MIT
// Learning rate schedules: a rate as a function of the step, with no state.

#include <cmath>
#include <numbers>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

/// The rate of step `step` (counted from 0) of `steps`: a linear rise that reaches `lr` at the last of `warmup` steps,
/// then half a cosine that reaches `min_lr` at the last step. With n = step + 1:
/// \f$ \eta_n = \eta\, n / n_w \f$ for \f$ n \le n_w \f$, and
/// \f$ \eta_n = \eta_{min} + (\eta - \eta_{min}) (1 + \cos(\pi (n - n_w) / (N - n_w))) / 2 \f$ afterwards.
/// Numbers of steps that are negative are an error.
[[nodiscard]] inline double warmup_cosine(Index step, Index warmup, Index steps, double lr, double min_lr) {
  if (0 > step || 0 > warmup || 0 > steps) {
    fail("warmup_cosine: expected a step, a warmup and a number of steps of at least 0, found ", step, ", ", warmup,
         " and ", steps);
  }
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= steps - 1) return min_lr;
  double const done = static_cast<double>(step - warmup + 1) / static_cast<double>(steps - warmup);
  return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace headmix
