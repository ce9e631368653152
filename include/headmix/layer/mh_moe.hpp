#pragma once
// SPDX-License-Identifier: MIT
// Multi-head mixture of experts (Huang et al. 2024, "MH-MoE: Multi-Head Mixture-of-Experts"). A token is split into
// sub-tokens; each sub-token is routed to feed-forward experts independently, and the results are merged into a token.

#include "headmix/expr/capacity.hpp"
#include "headmix/expr/distributed/exchange.hpp"
#include "headmix/layer/attention_block.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace headmix {

/// The options of MhMoe. The published code routes and counts padding; with `padded` it is neither routed nor counted.
using mh_moe_options = accepts<no_head, no_merge, head_bias, merge_bias, output_bias, subtoken_residual,
                               option::shared_expert, option::capacity, padded, option::output_dropout, expert_parallel,
                               overlapped_exchange, excludes<no_head, head_bias>, excludes<no_merge, merge_bias>>;

/// x [tokens, d] -> y [tokens, d], with W_head and W_merge [d, d], the router's parameters, W_g [d / h, E], and the
/// experts' parameters for rows of width d / h: W_up, W_gate [E, d / h, hidden_dim], W_down [E, hidden_dim, d / h]. The
/// losses are the router's. The chosen experts of the sub-tokens, Int [tokens h, top_k], are observable: row t h + j is
/// sub-token j of token t.
///
/// @tparam Width model_dim d, or `dynamic`
/// @tparam Split sub-tokens h of a token, or `dynamic`; h divides d
/// @tparam Router the router; the published one is SoftmaxTopK<E, top_k, gating::raw,
///   loss::first_choice_balance, init<fan_in_uniform>>
/// @tparam Expert the expert: FeedForward, or any other ExpertPolicy
/// @tparam Options see mh_moe_options
template <Index Width, Index Split, GivenRouter Router, GivenExpert Expert, class... Options>
struct MhMoe
    : token_block<MhMoe<Width, Split, Router, Expert, Options...>, option_set<mh_moe_options, Options...>, Width> {
  static_assert(!ReadsQueries<Router>,
                "headmix: this router compares the queries of attention heads, and MhMoe has none; use it with Moh");
  static_assert(Width == dynamic || Split == dynamic || (Split >= 1 && Width % Split == 0),
                "headmix: the number of sub-tokens must divide the width of MhMoe");
  using block = typename MhMoe::token_block;
  using block::x_t;
  using typename block::model_dim;
  template <class Option>
  static constexpr bool has = block::template has<Option>;
  static_assert(!has<overlapped_exchange> || has<expert_parallel>,
                "headmix: overlapped_exchange goes with expert_parallel");
  static_assert(!has<overlapped_exchange> || Router::top_k::value == dynamic || Router::top_k::value >= 2,
                "headmix: overlapped_exchange divides the choices of a row, of which this router makes one");
  /// True if random values of an expert depend on the numbers of rows.
  static constexpr bool draws_by_row = requires { requires Expert::draws_by_row; };
  static_assert(!has<expert_parallel> || !draws_by_row,
                "headmix: experts of expert_parallel see rows in the order of ranks, not of tokens; FeedForward has no "
                "hidden_dropout there");
  using Limit = typename block::template option_of<option::capacity>;

  struct split : size<Split> {};
  /// The most rows of an expert, if given at run time.
  struct expert_capacity : size<std::is_same_v<Limit, capacity<dynamic>> ? dynamic : 0> {};
  using experts = typename Router::experts;
  using top_k = typename Router::top_k;
  using network =
      typename Expert::template experts<std::conditional_t<has<expert_parallel>, rank_share<experts>, experts>,
                                        over<model_dim, split>>;

  /// Gain 1 / sqrt(2).
  struct W_head : param<model_dim, model_dim> {
    using initializer = xavier_uniform<1, 2>;
  };
  struct W_merge : param<model_dim, model_dim> {};
  struct b_head : bias_param<model_dim> {};
  struct b_merge : bias_param<model_dim> {};
  struct b_o : bias_param<model_dim> {};

  /// The mixture of experts, local or divided among ranks.
  template <Expr S, Expr G, Selection Chosen>
  static constexpr auto mixture(S rows_of_tokens, G gate, Chosen chosen) {
    if constexpr (has<overlapped_exchange>) {
      return overlapped_mixture_over_ranks<network, experts>(rows_of_tokens, gate, chosen);
    } else if constexpr (has<expert_parallel>) {
      return mixture_over_ranks<network, experts>(rows_of_tokens, gate, chosen);
    } else {
      return network::mixture(rows_of_tokens, gate, chosen);
    }
  }

  /// The observable row counts of the exchanges.
  static constexpr auto exchanges() {
    if constexpr (has<expert_parallel>) {
      return rows_by_rank<experts, has<overlapped_exchange>>(index);
    } else {
      return type_list<>{};
    }
  }

  // clang-format off
  static constexpr auto h = either<has<no_head>>(x_t, x_t % W_head{} + when<has<head_bias>>(b_head{}));
  static constexpr auto s = split_rows<split>(h);                                         // Split(x W_head)          (2)
  using r = typename Router::template route<std::remove_cv_t<decltype(s)>>;
  static constexpr auto index = within_capacity<Limit, expert_capacity>(r::index);        // Phi = top-k(G(s))
  static constexpr auto e = mixture(s, r::gate, index)                                    // sum of G(s)_p E_p(s)     (3)
                          + when<has<subtoken_residual>>(s);                              //   over the experts p of Phi
  static constexpr auto c = merge_rows<split>(e);                                         // Concat(e) W_merge        (4)
  static constexpr auto m = either<has<no_merge>>(c, c % W_merge{} + when<has<merge_bias>>(b_merge{}));
  static constexpr auto y = block::result(
      m + block::template option_of<option::shared_expert>::template output<model_dim>(x_t)
      + when<has<output_bias>>(b_o{}));
  // clang-format on

  using losses = typename r::losses;
  /// The chosen experts; with expert_parallel followed by rows_by_rank of each exchange.
  using observed = concat<type_list<std::remove_cv_t<decltype(r::index)>>, decltype(exchanges())>;
};

}  // namespace headmix
