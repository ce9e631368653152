#pragma once
// SPDX-License-Identifier: MIT
// Losses, composed from operations: scalars of order 1 that the caller weighs by name (expr/loss_name.hpp).

#include "headmix/expr/loss_name.hpp"
#include "headmix/expr/select.hpp"
#include "headmix/expr/softmax.hpp"

namespace headmix {

/// -log softmax(z)_target of each row, in nats, 0 for a target of -1: z [R, V], target Int [R, 1], result [R, 1].
template <Expr Z, Selection Chosen>
constexpr auto cross_entropy(Z logits, Chosen target) {
  return row_sum(one_hot(target)) * (log_sum_exp(logits) - gather_cols(logits, target));
}

/// The cross entropy with the target distribution (1 - eps) one_hot(target) + eps / V, eps = Num / Den (Szegedy et al.
/// 2016; PyTorch's label_smoothing): log_sum_exp(z) - (1 - eps) z_target - eps mean(z) of each row, in nats, 0 for a
/// target of -1. fairseq shares eps among the V - 1 other columns: its eps is eps (V - 1) / V here.
template <Index Num, Index Den, Expr Z, Selection Chosen>
constexpr auto label_smoothed_cross_entropy(Z logits, Chosen target) {
  static_assert(0 <= Num && Num < Den, "headmix: label smoothing is a fraction from 0 to below 1");
  return row_sum(one_hot(target)) * (log_sum_exp(logits) - number<Den - Num, Den>{} * gather_cols(logits, target) -
                                     number<Num, Den>{} * row_mean(logits));
}

/// a / sum(a) for a row of nonnegative numbers; zeros for zeros. (The published codes bound the sum from below by
/// 1e-12.)
template <Expr A>
constexpr auto normalize_sum(A a) {
  return a / (row_sum(a) + number<1, 1'000'000'000'000>{});
}

/// E sum_e P_e f_e, P the share of the probability and f the share of the choices that went to expert e; 1 at balance.
/// p [R, E], index Int [R, K]. Its name is load_balance. (MoA, equations 13 to 15)
template <Expr P, Selection Chosen>
constexpr auto load_balance(P p, Chosen index) {
  return named_loss<"load_balance">(value_of<cols<P>>{} *
                                    sum(normalize_sum(col_sum(p)) * normalize_sum(col_sum(one_hot(index)))));
}

/// The share of each expert in the sum of all gates: [1, E].
template <Expr G, Selection Chosen>
struct importance : let<decltype(normalize_sum(col_sum(scatter_cols(G{}, Chosen{}))))> {};

/// The squared coefficient of variation of the gates' sums over the experts, 0 for a single expert:
/// gate [R, K], index Int [R, K]. Its name is cv_squared. (Shazeer et al. 2017, equation 7; the published code of MoA)
template <Expr G, Selection Chosen>
constexpr auto cv_squared(G, Chosen) {
  constexpr auto mean = row_mean(importance<G, Chosen>{});
  constexpr auto variance = row_sum(square(importance<G, Chosen>{} - mean)) / degrees_of_freedom<domain<Chosen>>{};
  return named_loss<"cv_squared">(variance / (square(mean) + number<1, 10'000'000'000>{}));
}

/// The mean over rows of logsumexp(z)^2, 0 without rows: z [R, E]. Its name is z. (MoA, equation 16)
template <Expr Z>
constexpr auto z_loss(Z logits) {
  return named_loss<"z">(mean(square(log_sum_exp(logits))));
}

}  // namespace headmix
