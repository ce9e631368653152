#pragma once
// SPDX-License-Identifier: MIT
// Mixture-of-head attention (Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention"): multi-head
// attention whose heads are experts. Every token uses some heads, and only those are computed; keys and values are
// computed for all tokens and heads.

#include "headmix/expr/attention.hpp"
#include "headmix/expr/blocks.hpp"
#include "headmix/layer/multi_head.hpp"
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

/// Option: W_q and W_o multiply all heads by dense products, and only attention is restricted to the chosen heads. The
/// result is equal up to rounding; a non-finite weight of a head also reaches tokens for which this head is inactive.
/// On a GPU this is faster where most heads are active, and in short sequences where half of them are.
struct dense_projections : option_kind {
  static constexpr char const *syntax = "dense_projections",
                              *meaning = "W_q and W_o multiply all heads; attention is of the chosen ones",
                              *without = "W_q and W_o multiply the chosen heads";
};

/// The options of Moh.
using moh_options = and_accepts<multi_head_options, dense_projections>;

/// x [tokens, d] -> y [tokens, d], with W_q [d, E d_h], W_k and W_v [d, kv_heads d_h], W_o [E d_h, d] as in multi-head
/// attention with E heads, and the router's parameters. The losses are the router's; the chosen heads are observable.
/// Head i reads key/value head i kv_heads / E, rounded down; b_o is not multiplied by the weights of heads.
///
/// A router that reads queries (QueryNorm) needs the queries of all heads; with other routers, queries of inactive
/// heads are not computed. A route to all heads in order is multi-head attention with weighted heads.
///
/// `y_inference` is y by the router's inference_route, if it has one; a Module for inference computes it.
///
/// @tparam Width model_dim d, or `dynamic`
/// @tparam HeadDim head_dim d_h, or `dynamic`; E d_h need not be d
/// @tparam Router the router: TwoStage, QueryNorm, or any other
/// @tparam Options see moh_options
template <Index Width, Index HeadDim, GivenRouter Router, class... Options>
struct Moh : multi_head_block<Moh<Width, HeadDim, Router, Options...>, option_set<moh_options, Options...>, Width,
                              HeadDim, typename Router::experts> {
  using block = typename Moh::multi_head_block;
  using block::x_t, block::all_q;
  using typename block::W_q, typename block::W_o, typename block::b_q;
  template <class Option>
  static constexpr bool has = block::template has<Option>;
  static constexpr bool dense = block::template has<dense_projections>;
  using heads = typename Router::experts;
  using own_heads = typename block::own_heads;
  using top_k = typename Router::top_k;
  static_assert(
      !(ReadsQueries<Router> && has<tensor_parallel>),
      "headmix: this router compares the queries of all heads, and with tensor_parallel a rank has only some");

 private:
  template <class Route>
  using index_of = std::remove_cvref_t<decltype(Route::index)>;
  /// The query of every slot (a token and one of its heads): x_t W_Q^i for the active heads i.
  template <Selection Chosen>
  static constexpr auto queries(Chosen index) {
    if constexpr (ReadsQueries<Router>) {
      return gather_rows(split_rows<heads>(all_q), split_rows<cols<Chosen>>(flat_index(index)));
    } else {
      return expert_linear(block::x_q, column_blocks<own_heads>(W_q{}), index) +
             when<has<query_bias>>(expert_bias(split_rows<own_heads>(b_q{}), index));
    }
  }

 public:
  // clang-format off
  /// The heads of a route; only they are computed. Rows of q, o and g are slots.
  template <class Route, bool InOrder = detail::names_all<heads, index_of<Route>>, bool Dense = dense>
  struct active {
    static constexpr auto index = block::division::choices(Route::index);
    static constexpr auto g = split_rows<cols<index_of<Route>>>(block::on_each_rank(Route::gate));
    static constexpr auto q = block::scores::values::queries(queries(index), index);
    static constexpr auto o = block::attend(                                          // H_i = Attention(x_t W_Q^i,  (2)
        block::template rotate_queries<size<1>>(q), block::rows_of(index));           //   X' W_K^i, X' W_V^i)
    static constexpr auto y = block::result(expert_linear_combine(                    // sum_i g_i H_i W_O^i         (4)
        round_to_storage(g * o), row_blocks<own_heads>(W_o{}), index));
  };
  /// The dense_projections form: rows of q, o and g for all heads, with attention of the active ones; o of inactive
  /// heads is 0.
  template <class Route>
  struct active<Route, false, true> {
    static constexpr auto index = block::division::choices(Route::index);
    static constexpr auto g = split_rows<own_heads>(scatter_cols(block::on_each_rank(Route::gate), index));
    static constexpr auto q = split_rows<own_heads>(
        block::template rotate_queries<own_heads>(block::scores::template queries<own_heads>(all_q)));
    static constexpr auto o = block::attend(q, block::rows_of(choices_in_place(index)));
    static constexpr auto y = block::result(merge_rows<own_heads>(round_to_storage(g * o)) % W_o{});
  };
  /// All heads in order: multi-head attention with weighted heads.
  template <class Route, bool Dense>
  struct active<Route, true, Dense> {
    static constexpr auto g = split_rows<own_heads>(block::division::cols(Route::gate));
    static constexpr auto q = block::scores::template queries<own_heads>(all_q);
    static constexpr auto o = block::attend(block::template rotate_queries<own_heads>(q));
    static constexpr auto y = block::result(
        merge_rows<own_heads>(round_to_storage(g * split_rows<own_heads>(o))) % W_o{});
  };
  // clang-format on

  /// The input of the router: x, or the queries of all heads.
  using router_input = std::remove_const_t<decltype(either<ReadsQueries<Router>>(all_q, x_t))>;
  using r = typename Router::template route<router_input>;
  static constexpr auto y = active<r>::y;
  static constexpr auto y_inference = active<inference_route_of<Router, router_input>>::y;

  using losses = typename r::losses;
  /// For TwoStage and QueryNorm the chosen heads, numbered among the routed heads; otherwise `index`.
  using observed = observed_in<r>;
};

}  // namespace headmix
