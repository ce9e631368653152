#pragma once
// SPDX-License-Identifier: MIT
// Multi-head mixture of experts (Huang et al. 2024, "MH-MoE: Multi-Head Mixture-of-Experts"). A token is split into
// sub-tokens; each of them is routed to feed-forward experts on its own, and the results are merged to a token again.

#include "headmix/expr/capacity.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/options.hpp"
#include "headmix/router/softmax_top_k.hpp"

namespace headmix {

/// Options of MhMoe. Without the head or the merge layer, sub-tokens are parts of the input, or of the output.
struct no_head {};
struct no_merge {};
/// Biases of the head and of the merge layer (the published code has both).
struct head_bias {};
struct merge_bias {};
/// Adds the sub-token to its mixture, before the merge (Wu et al. 2024, the original MH-MoE, equation 6).
struct subtoken_residual {};

namespace option {
struct shared_expert {};
}  // namespace option
/// A network on whole tokens, added to the layer's output: `FeedForward<...>`.
template <class Network>
struct shared_expert : option::shared_expert {
  template <Extent D>
  using of = typename Network::template shared<D>;
};

/// x [tokens, D] -> y [tokens, D], with W_head and W_merge [D, D], the router's parameters, W_g [D / H, E], and those
/// of the experts, rows of width D / H: W_up, W_gate [E, D / H, F], W_down [E, F, D / H]. The losses are the router's;
/// the chosen experts of the sub-tokens, Int [tokens H, K], can be observed: row t H + j is sub-token j of token t.
///
/// Options, in any order:
/// - `no_head`, `no_merge`: without these layers; `head_bias` [D], `merge_bias` [D];
/// - `subtoken_residual`: sub-tokens are added to their mixture;
/// - `shared_expert<FeedForward<...>>`: a network on whole tokens, added after the merge;
/// - `capacity<Num, Den>` or `capacity<dynamic>`: experts take a limited number of sub-tokens;
/// - `padded`: x is [padded_tokens, D], and only the rows that `kept` names are real; the others are neither routed nor
///   counted (in the published code they are: there, and without this option, all rows are tokens);
/// - `output_dropout<n, d>`.
///
/// @tparam Width model width d, or `dynamic`
/// @tparam Split sub-tokens h of a token, or `dynamic`; h divides d
/// @tparam R how experts are chosen and weighed; the published one is SoftmaxTopK<E, K, gating::raw,
///   loss::first_choice_balance, init<fan_in_uniform>>
/// @tparam X what the experts are: FeedForward, or any other Expert
template <Index Width, Index Split, RouterPolicy R, ExpertPolicy X, class... Options>
struct MhMoe {
  static_assert((is_option<Options, no_head, no_merge, head_bias, merge_bias, subtoken_residual, option::shared_expert,
                           option::capacity, padded, option::output_dropout> &&
                 ...),
                "headmix: the options of MhMoe are no_head, no_merge, head_bias, merge_bias, subtoken_residual, "
                "shared_expert<FeedForward<...>>, capacity<Num, Den>, padded and output_dropout<n, d>");
  static_assert(!ReadsQueries<R>,
                "headmix: this router compares the queries of attention heads, and MhMoe has none; use it with Moh");
  static_assert(Width == dynamic || Split == dynamic || (Split >= 1 && Width % Split == 0),
                "headmix: the number of sub-tokens must divide the width of MhMoe");
  template <class Option>
  static constexpr bool has = has_option<Option, Options...>;
  static_assert(!(has<no_head> && has<head_bias>)&&!(has<no_merge> && has<merge_bias>),
                "headmix: head_bias and merge_bias belong to layers that no_head and no_merge leave out");
  using Limit = find_option<option::capacity, capacity<1>, Options...>;
  using Dropout = find_option<option::output_dropout, option::no_output_dropout, Options...>;
  static constexpr bool limits = (is_option<Options, option::capacity> || ...);
  static constexpr bool shares = (is_option<Options, option::shared_expert> || ...);
  static constexpr bool pads = has<padded>;

  struct D : size<Width> {};
  struct H : size<Split> {};
  struct C : size<std::is_same_v<Limit, capacity<dynamic>> ? dynamic : 0> {};  ///< rows that an expert takes
  using E = typename R::E;
  using K = typename R::K;
  using experts = typename X::template experts<E, over<D, H>>;

  struct x : input<std::conditional_t<pads, padded_tokens, tokens>, D> {};
  struct valid_rows : row_numbers<tokens, padded_tokens> {};
  /// Gain 1 / sqrt(2).
  struct W_head : param<D, D> {
    using initializer = xavier_uniform<1, 2>;
  };
  struct W_merge : param<D, D> {};
  struct b_head : bias_param<D> {};
  struct b_merge : bias_param<D> {};

 private:
  template <Selection Chosen>
  static constexpr auto limited(Chosen all) {
    if constexpr (limits) {
      return within_capacity<Limit, C>(all);
    } else {
      return all;
    }
  }
  /// a, or a w (+ b) of the layer with this option.
  template <class Without, class Biased, Expr A, Expr W, Expr B>
  static constexpr auto projected(A a, W w, B b) {
    if constexpr (has<Without>) {
      return a;
    } else {
      return a % w + when<has<Biased>>(b);
    }
  }
  template <Expr A>
  static constexpr auto of_shared(A a) {
    if constexpr (shares) {
      return find_option<option::shared_expert, void, Options...>::template of<D>::of(a);
    } else {
      return absent{};
    }
  }

 public:
  // clang-format off
  static constexpr auto x_t = either<pads>(gather_rows(x{}, valid_rows{}), x{});                // real rows
  static constexpr auto s = split_rows<H>(                                                // Split(x W_head)          (2)
      projected<no_head, head_bias>(x_t, W_head{}, b_head{}));
  using r = typename R::template route<std::remove_cv_t<decltype(s)>>;
  static constexpr auto index = limited(r::index);                                        // Phi = top-k(G(s))
  static constexpr auto e = experts::mixture(s, r::gate, index)                           // sum of G(s)_p E_p(s)     (3)
                          + when<has<subtoken_residual>>(s);                              //   over the experts p of Phi
  static constexpr auto m = projected<no_merge, merge_bias>(                              // Concat(e) W_merge        (4)
      merge_rows<H>(e), W_merge{}, b_merge{});
  static constexpr auto sum = Dropout::drop(m + of_shared(x_t));
  static constexpr auto y = either<pads>(scatter_rows(sum, valid_rows{}), sum);
  // clang-format on

  using losses = typename r::losses;
  using observed = type_list<std::remove_cv_t<decltype(r::index)>>;
};

}  // namespace headmix
