#pragma once
// SPDX-License-Identifier: MIT
// Multi-head attention (Vaswani et al. 2017, section 3.2.2): the dense baseline. With fewer key/value heads than heads
// it is grouped-query attention (Ainslie et al. 2023), with one it is multi-query attention.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/linear.hpp"

namespace headmix {

/// x [tokens, D] -> y [tokens, D], with W_q [D, Q H], W_k and W_v [D, P H] and W_o [Q H, D]. No losses.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam Heads number of heads h, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`; h d_h need not be d
/// @tparam Mask which keys a query sees
/// @tparam KvHeads number of key/value heads; divides h
template <Index Width, Index Heads, Index HeadDim, AttentionMask Mask = full, Index KvHeads = Heads>
struct MultiHead {
  struct D : size<Width> {};
  struct Q : size<Heads> {};
  struct H : size<HeadDim> {};
  struct P : size<KvHeads> {};

  struct x : input<tokens, D> {};
  struct W_q : param<D, times<Q, H>> {};
  struct W_k : param<D, times<P, H>> {};
  struct W_v : param<D, times<P, H>> {};
  struct W_o : param<times<Q, H>, D> {};

  static constexpr auto q = x{} % W_q{};
  static constexpr auto k = x{} % W_k{};
  static constexpr auto v = x{} % W_v{};
  static constexpr auto o = attention<Mask, P>(q, k, v);  // head_i = softmax(q_i k_i^T / sqrt(d_h)) v_i   (1)
  static constexpr auto y = o % W_o{};                    // concat(head_1, ..., head_h) W^O

  using losses = type_list<>;
  using observed = type_list<>;
};

}  // namespace headmix
