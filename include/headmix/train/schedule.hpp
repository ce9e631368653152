#pragma once
// SPDX-License-Identifier: MIT
// Learning rate schedules: a rate as a function of the step, with no state.

#include <cmath>
#include <numbers>

#include "headmix/core/config.hpp"

namespace headmix {

/// The rate of step `step` (counted from 0) of `steps`: a linear rise that reaches `lr` at the last of `warmup` steps,
/// then half a cosine that reaches `min_lr` at the last step. With n = step + 1:
/// \f$ \eta_n = \eta\, n / n_w \f$ for \f$ n \le n_w \f$, and
/// \f$ \eta_n = \eta_{min} + (\eta - \eta_{min}) (1 + \cos(\pi (n - n_w) / (N - n_w))) / 2 \f$ afterwards.
[[nodiscard]] inline double warmup_cosine(Index step, Index warmup, Index steps, double lr, double min_lr) {
  Index const n = step + 1;
  if (n <= warmup) return lr * static_cast<double>(n) / static_cast<double>(warmup);
  if (n >= steps) return min_lr;
  double const done = static_cast<double>(n - warmup) / static_cast<double>(steps - warmup);
  return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace headmix
