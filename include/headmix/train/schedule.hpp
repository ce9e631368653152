#pragma once
// SPDX-License-Identifier: MIT
// Learning rate schedules: a rate as a function of the step, with no state.

#include <cmath>
#include <numbers>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"
#include "headmix/train/settings.hpp"

namespace headmix {

namespace detail {
/// An error if a number of steps is negative.
inline void check_schedule(char const* whose, Index step, Index warmup, Index steps) {
  if (0 > step || 0 > warmup || 0 > steps) {
    fail(whose, ": expected a step, a warmup and a number of steps of at least 0, found ", step, ", ", warmup, " and ",
         steps);
  }
}
/// The rate of the linear rise, for step < warmup.
[[nodiscard]] inline double rising_rate(Index step, Index warmup, double lr) {
  return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
}
/// The share of the decay that is done, for warmup <= step < steps.
[[nodiscard]] inline double decay_done(Index step, Index warmup, Index steps) {
  return static_cast<double>(step - warmup + 1) / static_cast<double>(steps - warmup);
}
}  // namespace detail

/// The rate of step `step` (counted from 0) of `steps`: a linear rise that reaches `lr` at the last of `warmup` steps,
/// then half a cosine that reaches `min_lr` at the last step. With n = step + 1:
/// \f$ \eta_n = \eta\, n / n_w \f$ for \f$ n \le n_w \f$, and
/// \f$ \eta_n = \eta_{min} + (\eta - \eta_{min}) (1 + \cos(\pi (n - n_w) / (N - n_w))) / 2 \f$ afterwards.
/// Numbers of steps that are negative are an error.
[[nodiscard]] inline double warmup_cosine(Index step, Index warmup, Index steps, double lr, double min_lr) {
  detail::check_schedule("warmup_cosine", step, warmup, steps);
  if (step < warmup) return detail::rising_rate(step, warmup, lr);
  if (step >= steps - 1) return min_lr;
  double const done = detail::decay_done(step, warmup, steps);
  return min_lr + (lr - min_lr) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

/// The polynomial decay of warmup_cosine's arguments: the same rise, then
/// \f$ \eta_n = \eta_{min} + (\eta - \eta_{min}) (1 - (n - n_w) / (N - n_w))^p \f$. A `power` p that is not a finite
/// number above 0 is an error.
[[nodiscard]] inline double warmup_polynomial(Index step, Index warmup, Index steps, double lr, double min_lr,
                                              double power) {
  detail::check_schedule("warmup_polynomial", step, warmup, steps);
  detail::check_setting("warmup_polynomial", "power", power, power > 0 && std::isfinite(power),
                        "a finite number above 0");
  if (step < warmup) return detail::rising_rate(step, warmup, lr);
  if (step >= steps - 1) return min_lr;
  return min_lr + (lr - min_lr) * std::pow(1 - detail::decay_done(step, warmup, steps), power);
}

/// The linear decay: warmup_polynomial of power 1.
[[nodiscard]] inline double warmup_linear(Index step, Index warmup, Index steps, double lr, double min_lr) {
  detail::check_schedule("warmup_linear", step, warmup, steps);
  return warmup_polynomial(step, warmup, steps, lr, min_lr, 1);
}

/// The inverse square root (Vaswani et al. 2017): a linear rise that reaches `lr` at the last of `warmup` steps, then
/// \f$ \eta_n = \eta \sqrt{n_w / n} \f$; without warmup \f$ \eta / \sqrt{n} \f$. The paper's \f$ \eta \f$ is
/// \f$ (d\, n_w)^{-1/2} \f$.
[[nodiscard]] inline double warmup_inverse_sqrt(Index step, Index warmup, double lr) {
  detail::check_schedule("warmup_inverse_sqrt", step, warmup, 0);
  if (step < warmup) return detail::rising_rate(step, warmup, lr);
  double const first = warmup > 0 ? static_cast<double>(warmup) : 1;
  return lr * std::sqrt(first / (static_cast<double>(step) + 1));
}

}  // namespace headmix
