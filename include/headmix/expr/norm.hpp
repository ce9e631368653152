#pragma once
// SPDX-License-Identifier: MIT
// Normalisation of rows, composed from sums: the gradients follow.

#include "headmix/expr/reduce.hpp"

namespace headmix {

/// eps of the normalisations.
using norm_eps = number<1, 100000>;

/// (a - mean(a)) / sqrt(var(a) + eps) per row, times a gain [1, C], plus a bias [1, C] (Ba et al. 2016).
template <class Eps = norm_eps, Expr A, Expr Gain, Expr Bias>
constexpr auto layer_norm(A a, Gain gain, Bias bias) {
  constexpr auto centred = a - row_mean(a);
  constexpr auto deviation = sqrt(row_mean(square(centred)) + Eps{});
  return round_to_storage(centred / deviation * gain + bias);
}

/// a / sqrt(mean(a^2) + eps) per row, times a gain [1, C] (Zhang & Sennrich 2019).
template <class Eps = norm_eps, Expr A, Expr Gain>
constexpr auto rms_norm(A a, Gain gain) {
  return round_to_storage(a / sqrt(row_mean(square(a)) + Eps{}) * gain);
}

}  // namespace headmix
