#pragma once
// SPDX-License-Identifier: MIT
// Multi-head attention (Vaswani et al. 2017, section 3.2.2): the dense baseline. With fewer key/value heads than heads
// it is grouped-query attention (Ainslie et al. 2023), with one it is multi-query attention.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/layer/scores.hpp"

namespace headmix {

/// x [tokens, D] -> y [tokens, D], with W_q [D, Q H], W_k and W_v [D, P H] and W_o [Q H, D]. No losses.
///
/// Options are those of Moh: a mask, query_bias [Q H], key_bias [P H], value_bias [P H], output_bias [D], kv_heads<P>
/// (Q without it), context_dim<M>, padded, rope<theta>, cosine_scores<n>, qk_norm, relative_position_bias<...>,
/// probability_dropout<n, d> and output_dropout<n, d>.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam Heads number of heads h, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`; h d_h need not be d
template <Index Width, Index Heads, Index HeadDim, class... Options>
struct MultiHead {
  using O = attention_options<Options...>;
  static_assert(O::known,
                "headmix: the options of MultiHead are a mask, query_bias, key_bias, value_bias, output_bias, "
                "kv_heads<P>, context_dim<M>, padded, rope<theta>, cosine_scores<n>, qk_norm, "
                "relative_position_bias<...>, probability_dropout<n, d> and output_dropout<n, d>");
  using Position = typename O::Position;
  template <class Option>
  static constexpr bool has = has_option<Option, Options...>;
  static constexpr bool cross = O::cross, pads = O::pads;

  struct D : size<Width> {};
  struct Q : size<Heads> {};
  struct H : size<HeadDim> {};
  struct own_P : size<O::template key_value_heads<1>> {};
  using P = std::conditional_t<O::groups_heads, own_P, Q>;
  struct M : size<O::template width_of_memory<Width>> {};
  using S = score_options<Q, H, Options...>;

  struct x : input<std::conditional_t<pads, padded_tokens, tokens>, D> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};
  struct context : input<std::conditional_t<pads, padded_context_tokens, context_tokens>, M> {};
  struct context_valid_rows : row_numbers<context_tokens, padded_context_tokens> {};
  struct W_q : param<D, times<Q, H>> {};
  struct W_k : param<std::conditional_t<cross, M, D>, times<P, H>> {};
  struct W_v : param<std::conditional_t<cross, M, D>, times<P, H>> {};
  struct W_o : param<times<Q, H>, D> {};
  struct b_q : bias_param<times<Q, H>> {};
  struct b_k : bias_param<times<P, H>> {};
  struct b_v : bias_param<times<P, H>> {};
  struct b_o : bias_param<D> {};

  // clang-format off
  static constexpr auto x_q = either<pads>(gather_rows(x{}, valid_rows{}), x{});                      // real rows of queries,
  static constexpr auto x_m = either<pads>(gather_rows(context{}, context_valid_rows{}), context{});     // of the memory,
  static constexpr auto x_k = either<cross>(x_m, x_q);                                          // of keys and values

  static constexpr auto all_q = x_q % W_q{} + when<has<query_bias>>(b_q{});
  static constexpr auto all_k = x_k % W_k{} + when<has<key_bias>>(Position::key_bias(b_k{}));
  static constexpr auto q = Position::template rotate<Q>(S::template queries<Q>(all_q));
  static constexpr auto k = Position::template rotate<P>(S::template keys<P>(all_k));
  static constexpr auto v = x_k % W_v{} + when<has<value_bias>>(b_v{});
  static constexpr auto o = S::template attend<P, typename O::ProbabilityDropout>(q, k, v);  // head_i = softmax(q_i k_i^T / sqrt(d_h)) v_i
  static constexpr auto sum = o % W_o{} + when<has<output_bias>>(b_o{});       // concat(head_1, ..., head_h) W^O    (1)
  static constexpr auto dropped = O::Dropout::drop(sum);
  static constexpr auto y = either<pads>(scatter_rows(dropped, valid_rows{}), dropped);
  // clang-format on

  using losses = type_list<>;
  using observed = type_list<>;
};

}  // namespace headmix
