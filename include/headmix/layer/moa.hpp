#pragma once
// SPDX-License-Identifier: MIT
// Mixture of attention heads (Zhang et al. 2022, "Mixture of Attention Heads: Selecting Attention Heads Per Token").
// Every token picks k of E attention experts. An expert owns W_q and W_o; keys and values are shared by all experts.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/layer/attention_block.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace headmix {

/// The options of Moa. An expert is kv_heads heads, head j reads key/value head j (JetMoE).
using moa_options =
    accepts<option::mask, query_bias, key_bias, value_bias, output_bias, option::kv_heads, option::context_dim,
            option::value_dim, padded, option::position, option::score_map, option::probability_dropout,
            option::output_dropout, expert_parallel, excludes<expert_parallel, option::score_map>,
            excludes<expert_parallel, option::probability_dropout>>;

namespace detail {
/// True without this option of an input's width, or if it is Width.
template <class Options, class Dim, Index Width>
inline constexpr bool has_width =
    !Options::template has<Dim> || (Width != dynamic && Options::template value<Dim, Width> == Width);
/// Gain 1 / sqrt(2) if queries, keys and values are projections of the same width.
template <class Options, Index Width>
using moa_kv_initializer =
    std::conditional_t<has_width<Options, option::context_dim, Width> && has_width<Options, option::value_dim, Width>,
                       xavier_uniform<1, 2>, xavier_uniform<>>;
}  // namespace detail

/// x [tokens, d] -> y [tokens, d], with W_q [E, d, P d_h], W_k and W_v [d, P d_h], W_o [E, P d_h, d] and the router's
/// parameters; the optional biases are b_q [E, P d_h], b_k and b_v [P d_h], b_o [E, d]. The losses are the router's;
/// the chosen experts, Int [tokens, top_k], are observable.
///
/// @tparam Width model_dim d, or `dynamic`
/// @tparam HeadDim head_dim d_h, or `dynamic`
/// @tparam Router the router
/// @tparam Options see moa_options
template <Index Width, Index HeadDim, GivenRouter Router, class... Options>
struct Moa
    : attention_block<Moa<Width, HeadDim, Router, Options...>, option_set<moa_options, Options...>, Width, HeadDim,
                      size<1>, void, detail::moa_kv_initializer<option_set<moa_options, Options...>, Width>> {
  static_assert(!ReadsQueries<Router>,
                "headmix: this router compares the queries of all heads, and experts of Moa make them "
                "for the tokens that chose them only; use it with Moh");
  using block = typename Moa::attention_block;
  using block::x_t;
  using typename block::kv_heads, typename block::head_dim, typename block::model_dim;
  template <class Option>
  static constexpr bool has = block::template has<Option>;
  using experts = typename Router::experts;
  using own_experts = std::conditional_t<has<expert_parallel>, rank_share<experts>, experts>;
  using top_k = typename Router::top_k;

  struct W_q : param<own_experts, model_dim, times<kv_heads, head_dim>> {};
  struct W_o : param<own_experts, times<kv_heads, head_dim>, model_dim>, attention_output {};
  struct b_q : bias_param<own_experts, times<kv_heads, head_dim>> {};
  struct b_o : bias_param<own_experts, model_dim>, attention_output {};

  /// Choices among all experts as choices among this rank's experts.
  template <Extent E, Selection Chosen>
  static constexpr auto own(Chosen chosen) {
    if constexpr (has<expert_parallel>) {
      return share_of_choices<E>(chosen);
    } else {
      return chosen;
    }
  }

  /// Score maps number the heads of all experts: head j of expert i is number j E + i of P E, so that heads with the
  /// same keys are adjacent, as in grouped-query attention. If maps differ between heads, attention receives the heads
  /// of each row.
  using scores = typename block::template scores_of<times<kv_heads, experts>>;
  template <Selection Chosen, Expr Q>
  static constexpr auto attend(Chosen chosen, Q queries) {
    if constexpr (scores::mapped_by_head) {
      return merge_rows<kv_heads>(block::template attend<scores>(split_rows<kv_heads>(queries),
                                                                 rows_of_heads(heads_of_choices<kv_heads>(chosen))));
    } else {
      return block::template attend<scores>(queries);
    }
  }

  // clang-format off
  using r = typename Router::template route<std::remove_cv_t<decltype(x_t)>>;
  static constexpr auto index = own<experts>(r::index);                      // G(t), or its experts on this rank
  static constexpr auto q = expert_linear(block::x_q, W_q{}, index)          // q_{t,i} = x_t W^q_i, i in G(t)     (10)
                          + when<has<query_bias>>(expert_bias(b_q{}, index));
  static constexpr auto o = attend(index,                                    // softmax(q k^T / sqrt(d_h)) v,  (10)(11)
      block::template rotate_queries<kv_heads>(q));                          // K = X W^k, V = X W^v shared by all
  static constexpr auto g = block::on_each_rank(r::gate);                    // w_{t,i}                             (9)
  static constexpr auto sum = expert_linear_combine(                         // y_t = sum_i w_{t,i} E_i,            (6)
      round_to_storage(split_rows<top_k>(g) * o), W_o{}, index)              // E_i = o_{t,i} W^o_i (+ b^o_i)      (12)
                            + when<has<output_bias>>(round_to_storage(scatter_cols(g, index)) % b_o{});
  static constexpr auto y = block::result(block::over_all_ranks(sum));
  // clang-format on

  using losses = typename r::losses;
  using observed = type_list<std::remove_cv_t<decltype(r::index)>>;
};

}  // namespace headmix
