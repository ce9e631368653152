#pragma once
// SPDX-License-Identifier: MIT
// Losses, composed: scalars of order 1 that the caller weighs.

#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"

namespace headmix {

/// -log softmax(z)_target of each row, in nats: z [R, V], target Int [R, 1], result [R, 1].
template <Expr Z, Selection I>
constexpr auto cross_entropy(Z logits, I target) {
  return log_sum_exp(logits) - take(logits, target);
}

/// E sum_e P_e f_e, P the share of the probability and f the share of the choices that went to expert e; 1 at balance.
/// p [R, E], index Int [R, K]. (MoA, equations 13 to 15)
template <Expr P, Selection I>
constexpr auto load_balance(P p, I index) {
  constexpr auto probability = col_sum(p);
  constexpr auto choices = col_sum(one_hot(index));
  return value_of<cols<P>>{} * sum((probability / row_sum(probability)) * (choices / row_sum(choices)));
}

/// The mean over rows of logsumexp(z)^2: z [R, E]. (MoA, equation 16)
template <Expr Z>
constexpr auto z_loss(Z logits) {
  return mean(square(log_sum_exp(logits)));
}

}  // namespace headmix
