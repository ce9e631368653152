#pragma once
// SPDX-License-Identifier: MIT
// Mixture of attention heads (Zhang et al. 2022, "Mixture of Attention Heads: Selecting Attention Heads Per Token").
// Every token picks k of E attention experts. An expert owns W_q and W_o; keys and values are shared by all of them.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace headmix {

/// x [tokens, D] -> y [tokens, D], with W_q [E, D, H], W_k and W_v [D, H], W_o [E, H, D] and the router's parameters.
/// The losses are the router's; the chosen experts, Int [tokens, K], can be observed.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`
/// @tparam R how experts are chosen and weighed
/// @tparam Mask which keys a query sees
template <Index Width, Index HeadDim, Router R, AttentionMask Mask = full>
struct Moa {
  struct D : size<Width> {};
  struct H : size<HeadDim> {};
  using E = typename R::E;
  using K = typename R::K;

  struct x : input<tokens, D> {};
  struct W_q : param<E, D, H> {};
  struct W_k : param<D, H> {
    using initial = xavier_uniform<1, 2>;
  };
  struct W_v : param<D, H> {
    using initial = xavier_uniform<1, 2>;
  };
  struct W_o : param<E, H, D> {};

  // clang-format off
  using r = typename R::template route<x>;
  static constexpr auto q = expert_linear(x{}, W_q{}, r::index);              // q_{t,i} = x_t W^q_i, i in G(t)     (10)
  static constexpr auto k = x{} % W_k{};                                      // K = X W^k, shared by all experts   (10)
  static constexpr auto v = x{} % W_v{};                                      // V = X W^v, shared by all experts   (11)
  static constexpr auto o = attention<Mask>(q, k, v);                         // softmax(q k^T / sqrt(d_h)) v       (10)(11)
  static constexpr auto y = mix(r::gate, expert_linear(o, W_o{}, r::index));  // y_t = sum_i w_{t,i} o_{t,i} W^o_i  (6)(12)
  // clang-format on

  using losses = typename r::losses;
  using observed = type_list<std::remove_cv_t<decltype(r::index)>>;
};

}  // namespace headmix
