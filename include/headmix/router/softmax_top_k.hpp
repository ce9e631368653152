#pragma once
// SPDX-License-Identifier: MIT
// The router of MoA (Zhang et al. 2022, section 3.1): the k most probable of E experts for every token.

#include "headmix/expr/linear.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// How the weights of the chosen experts follow from their probabilities p.
enum class gating {
  detached,     ///< p / detach(sum p): the paper's equation 9; also the only chosen expert's router learns
  raw,          ///< p: the published code
  renormalized  ///< p / sum p: no gradient reaches the experts that were not chosen
};

/// w from p, both [R, K].
template <gating Gating, Expr P>
constexpr auto gate_weights(P p) {
  if constexpr (Gating == gating::raw) {
    return p;
  } else if constexpr (Gating == gating::renormalized) {
    return p / row_sum(p);
  } else {
    return p / detach(row_sum(p));
  }
}

/// route<X>: X [rows, d] -> index Int [rows, K], best first, and gate [rows, K]; parameter W_g [d, E], zero at the start.
/// Losses: load balance (1 at balance) and z, each [1, 1]. Choosing 0 or more than E experts is an error.
///
/// @tparam Experts number of experts, or `dynamic`
/// @tparam TopK experts per token, or `dynamic`
template <Index Experts, Index TopK, gating Gating = gating::detached>
struct SoftmaxTopK {
  struct E : size<Experts> {};
  struct K : size<TopK> {};

  template <Expr X, class Tag = void>
  struct route {
    struct W_g : param<cols<X>, E> {
      using initial = zeros;
    };
    // clang-format off
    static constexpr auto z = wide(X{} % W_g{});                // z_t = q_t W_g
    static constexpr auto p = softmax(z);                       // p_t = softmax(z_t)                        (7)
    static constexpr auto index = top_k<K>(p);                  // G(t) = top-k of p_t                       (8)
    static constexpr auto chosen = take(p, index);              // p_{t,i}, i in G(t)
    static constexpr auto gate = gate_weights<Gating>(chosen);  // w_{t,i} = p_{t,i} / detach(sum_j p_{t,j}) (9)
    static constexpr auto load = load_balance(p, index);        // L_a = E sum_i P_i f_i                     (13)-(15)
    static constexpr auto z_2 = z_loss(z);                      // L_z = mean_t (log sum_i exp z_{t,i})^2    (16)
    // clang-format on
    using losses = type_list<std::remove_cv_t<decltype(load)>, std::remove_cv_t<decltype(z_2)>>;
  };
};

static_assert(Router<SoftmaxTopK<8, 2>>);
static_assert(Router<SoftmaxTopK<dynamic, dynamic>>);

}  // namespace headmix
