#pragma once
// SPDX-License-Identifier: MIT
// Mixture of attention heads (Zhang et al. 2022, "Mixture of Attention Heads: Selecting Attention Heads Per Token").
// Every token picks k of E attention experts. An expert owns W_q and W_o; keys and values are shared by all of them.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/layer/options.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace headmix {

/// x [tokens, D] -> y [tokens, D], with W_q [E, D, P H], W_k and W_v [D, P H], W_o [E, P H, D] and the router's
/// parameters. The losses are the router's; the chosen experts, Int [tokens, K], can be observed.
///
/// Options, in any order:
/// - a mask: which keys a query sees (`full` without one; `causal`, `sliding_window<n>` or the user's own);
/// - `query_bias` [E, P H], `key_bias` [P H], `value_bias` [P H], `output_bias` [E, D], each on its own;
/// - `kv_heads<P>`: an expert is P heads, head j reads key/value head j (JetMoE; 1 without it);
/// - `context_dim<M>`: keys and values come from a second input `memory` [context_tokens, M] (cross-attention);
/// - `padded`: x is [padded_tokens, D], and only the rows that `kept` names are real (of memory: `context_valid_rows`);
/// - `rope<theta>`: rotary embedding of queries and keys;
/// - `probability_dropout<n, d>`, `output_dropout<n, d>`: dropout of the attention's probabilities, and of the mixture,
///   at the rate n / d.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam HeadDim head width d_h, or `dynamic`
/// @tparam R how experts are chosen and weighed
template <Index Width, Index HeadDim, RouterPolicy R, class... Options>
struct Moa {
  using O = attention_options<Options...>;
  static_assert(O::known && !(is_option<Options, option::scores, option::relative_bias> || ...),
                "headmix: the options of Moa are a mask, query_bias, key_bias, value_bias, output_bias, kv_heads<P>, "
                "context_dim<M>, padded, rope<theta>, probability_dropout<n, d> and output_dropout<n, d>");
  static_assert(!ReadsQueries<R>,
                "headmix: this router compares the queries of all heads, and experts of Moa make them "
                "for the tokens that chose them only; use it with Moh");
  using Mask = typename O::Mask;
  using Position = typename O::Position;
  using ProbabilityDropout = typename O::ProbabilityDropout;
  template <class Option>
  static constexpr bool has = has_option<Option, Options...>;
  static constexpr bool cross = O::cross, pads = O::pads;

  struct D : size<Width> {};
  struct H : size<HeadDim> {};
  struct P : size<O::template key_value_heads<1>> {};
  struct M : size<O::template width_of_memory<Width>> {};
  using E = typename R::E;
  using K = typename R::K;

  struct x : input<std::conditional_t<pads, padded_tokens, tokens>, D> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};
  struct context : input<std::conditional_t<pads, padded_context_tokens, context_tokens>, M> {};
  struct context_valid_rows : row_numbers<context_tokens, padded_context_tokens> {};

  /// Of W_k and W_v: gain 1 / sqrt(2) where queries, keys and values are made from the same width.
  using initial_kv = std::conditional_t<!cross || (M::value == D::value && D::value != dynamic), xavier_uniform<1, 2>,
                                        xavier_uniform<>>;
  struct W_q : param<E, D, times<P, H>> {};
  struct W_k : param<std::conditional_t<cross, M, D>, times<P, H>> {
    using initializer = initial_kv;
  };
  struct W_v : param<std::conditional_t<cross, M, D>, times<P, H>> {
    using initializer = initial_kv;
  };
  struct W_o : param<E, times<P, H>, D> {};
  struct b_q : bias_param<E, times<P, H>> {};
  struct b_k : bias_param<times<P, H>> {};
  struct b_v : bias_param<times<P, H>> {};
  struct b_o : bias_param<E, D> {};

  // clang-format off
  static constexpr auto x_q = either<pads>(gather_rows(x{}, valid_rows{}), x{});                      // real rows of queries,
  static constexpr auto x_m = either<pads>(gather_rows(context{}, context_valid_rows{}), context{});     // of the memory,
  static constexpr auto x_k = either<cross>(x_m, x_q);                                          // of keys and values

  using r = typename R::template route<std::remove_cv_t<decltype(x_q)>>;
  static constexpr auto q = expert_linear(x_q, W_q{}, r::index)              // q_{t,i} = x_t W^q_i, i in G(t)     (10)
                          + when<has<query_bias>>(expert_bias(b_q{}, r::index));
  static constexpr auto k = x_k % W_k{}                                      // K = X W^k, shared by all experts   (10)
                          + when<has<key_bias>>(Position::key_bias(b_k{}));
  static constexpr auto v = x_k % W_v{} + when<has<value_bias>>(b_v{});      // V = X W^v, shared by all experts   (11)
  static constexpr auto o = attention<Mask, P, ProbabilityDropout>(                        // softmax(q k^T / sqrt(d_h)) v    (10)(11)
      Position::template rotate<P>(q), Position::template rotate<P>(k), v);
  static constexpr auto g = r::gate;                                         // w_{t,i}                            (9)
  static constexpr auto sum = expert_linear_combine(round_to_storage(split_rows<K>(g) * o),       // y_t = sum_i w_{t,i} E_i,           (6)
                                         W_o{}, r::index)                    // E_i = o_{t,i} W^o_i (+ b^o_i)      (12)
                            + when<has<output_bias>>(round_to_storage(scatter_cols(g, r::index)) % b_o{});
  static constexpr auto dropped = O::Dropout::drop(sum);
  static constexpr auto y = either<pads>(scatter_rows(dropped, valid_rows{}), dropped);
  // clang-format on

  using losses = typename r::losses;
  using observed = type_list<std::remove_cv_t<decltype(r::index)>>;
};

}  // namespace headmix
