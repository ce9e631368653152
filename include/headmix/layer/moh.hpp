#pragma once
// SPDX-License-Identifier: MIT
// Mixture-of-head attention (Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention"): multi-head
// attention whose heads are experts. Every token uses some heads, and only those are computed; keys and values are
// those of all tokens and heads.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/blocks.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/layer/scores.hpp"
#include "headmix/router/query_norm.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix {

namespace detail {
/// True for a selection of all E columns in their order.
template <class E, class Chosen>
inline constexpr bool names_all = false;
template <class E, Expr Like>
inline constexpr bool names_all<E, node<ops::iota_cols<size<0>, E, E>, Like>> = true;
}  // namespace detail

/// x [tokens, D] -> y [tokens, D], with W_q [D, E H], W_k and W_v [D, P H], W_o [E H, D] as in multi-head attention
/// with E heads, and the router's parameters. The losses are the router's; the chosen heads can be observed.
///
/// Options, in any order:
/// - a mask: which keys a query sees (`full` without one; `causal`, `sliding_window<n>` or the user's own);
/// - `query_bias` [E H], `key_bias` [P H], `value_bias` [P H], `output_bias` [D], each on its own; no head's weight
///   multiplies the last one;
/// - `kv_heads<P>`: head i reads key/value head i P / E rounded down (E of them without it);
/// - `context_dim<M>`: keys and values come from a second input `memory` [context_tokens, M] (cross-attention);
/// - `padded`: x is [padded_tokens, D], and only the rows that `kept` names are real (of memory: `context_valid_rows`);
/// - `rope<theta>`: rotary embedding of queries and keys;
/// - `cosine_scores<n>`, `qk_norm`, `relative_position_bias<...>`: other scores (layer/scores.hpp);
/// - `probability_dropout<n, d>`, `output_dropout<n, d>`: dropout of the attention's probabilities, and of y.
///
/// A router that reads queries (QueryNorm) needs those of all heads; with other routers, queries of heads that are off
/// are not computed either. A route to all heads in their order is multi-head attention with weighed heads.
///
/// `y_inference` is y by the router's inference_route, where it has one: what a Module for inference computes.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`; E d_h need not be d
/// @tparam R how heads are chosen and weighed: TwoStage, QueryNorm, or any other router
template <Index Width, Index HeadDim, RouterPolicy R, class... Options>
struct Moh {
  using O = attention_options<Options...>;
  static_assert(O::known,
                "headmix: the options of Moh are a mask, query_bias, key_bias, value_bias, output_bias, "
                "kv_heads<P>, context_dim<M>, padded, rope<theta>, cosine_scores<n>, qk_norm, "
                "relative_position_bias<...>, probability_dropout<n, d> and output_dropout<n, d>");
  using Position = typename O::Position;
  template <class Option>
  static constexpr bool has = has_option<Option, Options...>;
  static constexpr bool cross = O::cross, pads = O::pads;

  struct D : size<Width> {};
  struct H : size<HeadDim> {};
  using E = typename R::E;
  using K = typename R::K;
  struct own_P : size<O::template key_value_heads<1>> {};
  using P = std::conditional_t<O::groups_heads, own_P, E>;
  struct M : size<O::template width_of_memory<Width>> {};
  using S = score_options<E, H, Options...>;

  struct x : input<std::conditional_t<pads, padded_tokens, tokens>, D> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};
  struct context : input<std::conditional_t<pads, padded_context_tokens, context_tokens>, M> {};
  struct context_valid_rows : row_numbers<context_tokens, padded_context_tokens> {};
  struct W_q : param<D, times<E, H>> {};
  struct W_k : param<std::conditional_t<cross, M, D>, times<P, H>> {};
  struct W_v : param<std::conditional_t<cross, M, D>, times<P, H>> {};
  struct W_o : param<times<E, H>, D> {};
  struct b_q : bias_param<times<E, H>> {};
  struct b_k : bias_param<times<P, H>> {};
  struct b_v : bias_param<times<P, H>> {};
  struct b_o : bias_param<D> {};

  // clang-format off
  static constexpr auto x_q = either<pads>(gather_rows(x{}, valid_rows{}), x{});                   // real rows of queries,
  static constexpr auto x_m = either<pads>(gather_rows(context{}, context_valid_rows{}), context{});  // of the memory,
  static constexpr auto x_k = either<cross>(x_m, x_q);                                       // of keys and values

  static constexpr auto all_q = x_q % W_q{} + when<has<query_bias>>(b_q{});            // X W_Q, if the router reads it
  static constexpr auto all_k = x_k % W_k{} + when<has<key_bias>>(Position::key_bias(b_k{}));
  static constexpr auto k = Position::template rotate<P>(S::template keys<P>(all_k));          // X' W_K of all heads
  static constexpr auto v = x_k % W_v{} + when<has<value_bias>>(b_v{});                      // X' W_V of all heads

 private:
  template <class Route>
  using index_of = std::remove_cvref_t<decltype(Route::index)>;
  /// The query of every slot, a token and one of its heads.
  template <Selection Chosen>
  static constexpr auto queries(Chosen index) {
    if constexpr (ReadsQueries<R>) {
      return gather_rows(split_rows<E>(all_q), split_rows<cols<Chosen>>(flat_index(index)));
    } else {
      return expert_linear(x_q, column_blocks<E>(W_q{}), index)
           + when<has<query_bias>>(expert_bias(split_rows<E>(b_q{}), index));
    }
  }
  template <Expr A>
  static constexpr auto finished(A a) {
    constexpr auto rows = O::Dropout::drop(a + when<has<output_bias>>(b_o{}));
    return either<pads>(scatter_rows(rows, valid_rows{}), rows);
  }

 public:
  /// The heads that a route names; only they are computed. Rows of q, o and c are slots.
  template <class Route, bool InOrder = detail::names_all<E, index_of<Route>>>
  struct heads {
    static constexpr auto index = Route::index;
    static constexpr auto g = split_rows<cols<index_of<Route>>>(Route::gate);
    static constexpr auto q = S::values::queries(queries(index), index);                     // x_t W_Q^i, i active
    static constexpr auto o = S::template attend<P, typename O::ProbabilityDropout>(                // H_i = Attention(x_t W_Q^i,  (2)
        Position::template rotate<size<1>>(q), k, v, rows_of_heads(index));                    //   X' W_K^i, X' W_V^i)
    static constexpr auto sum = expert_linear_combine(round_to_storage(g * o), row_blocks<E>(W_o{}), index);      // sum_i g_i H_i W_O^i  (4)
    static constexpr auto y = finished(sum);
  };
  /// All heads in their order: multi-head attention whose heads have weights.
  template <class Route>
  struct heads<Route, true> {
    static constexpr auto g = split_rows<E>(Route::gate);
    static constexpr auto q = S::template queries<E>(all_q);
    static constexpr auto o = S::template attend<P, typename O::ProbabilityDropout>(Position::template rotate<E>(q), k, v);
    static constexpr auto y = finished(merge_rows<E>(round_to_storage(g * split_rows<E>(o))) % W_o{});
  };
  // clang-format on

  /// What the router reads.
  using X = std::remove_const_t<decltype(either<ReadsQueries<R>>(all_q, x_q))>;
  using r = typename R::template route<X>;
  static constexpr auto y = heads<r>::y;
  static constexpr auto y_inference = heads<inference_route_of<R, X>>::y;

  using losses = typename r::losses;
  /// Of TwoStage and QueryNorm the chosen heads, numbered among the routed ones; else `index`.
  using observed = observed_in<r>;
};

}  // namespace headmix
