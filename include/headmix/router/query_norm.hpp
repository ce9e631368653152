#pragma once
// SPDX-License-Identifier: MIT
// The router that makes a pretrained model a MoH without new parameters (Jin et al. 2024, section 3.4): the heads with
// the longest queries are chosen, with weights of 0 and 1 and a straight-through gradient.

#include "headmix/expr/view_ops.hpp"
#include "headmix/router/options.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// The routed heads that the straight-through gradient reaches.
namespace estimator {
struct all;
struct policy : option_kind {
  using standard = all;
  static constexpr char const *syntax = "estimator::all, estimator::active",
                              *meaning = "which routed heads the straight-through gradient reaches",
                              *without = "estimator::all";
};
/// All routed heads, as in equations 9 and 10: training computes every head, inference only the active ones.
struct all : policy {};
/// The chosen heads: training also computes only the active heads.
struct active : policy {};
}  // namespace estimator

namespace detail {
template <bool Given>
struct query_norm_has_no_logits : std::true_type {
  static_assert(!Given,
                "headmix: QueryNorm takes no loss::z and no loss::z_with_padding: its scores are lengths of queries "
                "divided by their deviation, so there are no logits to keep small; leave the loss out");
};
template <bool Given>
struct query_norm_has_weights_of_one : std::true_type {
  static_assert(!Given,
                "headmix: QueryNorm takes no loss::cv_squared: its weights are 0 and 1, whose sums have no gradient; "
                "write loss::head_balance or loss::load_balance");
};
}  // namespace detail

/// The options of QueryNorm. The default loss is head_balance.
using query_norm_options =
    accepts<estimator::policy, loss::policy, refuses_kind<loss::z, detail::query_norm_has_no_logits>,
            refuses_kind<loss::z_with_padding, detail::query_norm_has_no_logits>,
            refuses_kind<loss::cv_squared, detail::query_norm_has_weights_of_one>>;

/// route<Q>: queries Q [rows, h d_h] of all heads, before any rotation -> index Int [rows, h_s + K_r], the shared heads
/// 0 .. h_s - 1 followed by the chosen heads, best first; their weights `gate` are 1. No parameters.
///
/// With estimator::all, index names all heads in order, and gate is 1 for active and 0 for other heads;
/// `inference_route<Q>` gives the same result from the active heads. `chosen` [rows, K_r] numbers the chosen heads
/// among the routed heads.
///
/// @tparam Shared number h_s of shared heads, or `dynamic` for one or more
/// @tparam Routed number E_r of routed heads, two or more, or `dynamic`
/// @tparam TopK routed heads per token, K_r, or `dynamic`
/// @tparam Options see query_norm_options
template <Index Shared, Index Routed, Index TopK, class... Options>
struct QueryNorm {
  using O = option_set<query_norm_options, Options...>;
  static_assert(Routed == dynamic || Routed >= 2,
                "headmix: QueryNorm compares the routed heads of a token and needs two or more");
  using Estimator = typename O::template get<estimator::policy>;
  static constexpr bool every_head = std::is_same_v<Estimator, estimator::all>;
  /// The router's input is the queries of all heads, not x.
  static constexpr bool reads_queries = true;

  struct shared_heads : size<Shared> {};
  struct routed_heads : size<Routed> {};
  struct routed_top_k : size<TopK> {};
  using experts = plus<shared_heads, routed_heads>;
  using top_k = std::conditional_t<every_head, experts, plus<shared_heads, routed_top_k>>;

  /// E_r - 1, for at least two routed heads.
  struct freedom : degrees_of_freedom<routed_heads> {
    using requirements = type_list<at_most<extent_value<size<2>>, extent_value<routed_heads>>>;
  };

  /// Probabilities of the routed heads from their queries.
  template <Expr Q, class Tag>
  struct values {
   private:
    static constexpr auto of_routed(auto a) {
      return gather_cols(a, iota_cols<shared_heads, routed_heads, experts>(a));
    }
    static constexpr auto lengths = merge_rows<experts>(safe_sqrt(row_sum(square(split_rows<experts>(Q{})))));

   public:
    // clang-format off
    static constexpr auto n = of_routed(lengths);                                                // |W_q^i x|, h_s < i <= h
    static constexpr auto centred = n - row_mean(n);                             // p is the same without the mean
    static constexpr auto deviation = safe_sqrt(row_sum(square(centred)) / freedom{});
    static constexpr auto p = softmax(centred / maximum(deviation, number<1, 1'000'000>{}));    // g_i              (8)
    static constexpr auto chosen = arg_top_k<routed_top_k>(p);
    // clang-format on
  };
  /// The route to the active heads.
  template <Expr Q, class Tag>
  struct active_heads : values<Q, Tag> {
    using v = values<Q, Tag>;
    static constexpr auto index = shared_and<shared_heads>(v::chosen);
    static constexpr auto gate = ones_and<shared_heads>(
        straight_through(ones_of<rows<Q>, routed_top_k>(), gather_cols(v::p, v::chosen)));  // (9)
  };
  /// The route to all heads, with weights of 0 and 1.
  template <Expr Q, class Tag>
  struct all_heads : values<Q, Tag> {
    using v = values<Q, Tag>;
    static constexpr auto index = iota_cols<size<0>, experts, experts>(v::chosen);
    static constexpr auto gate = ones_and<shared_heads>(straight_through(one_hot(v::chosen), v::p));  // (9)(10)
  };

  template <Expr Q, class Tag = void>
  struct route : std::conditional_t<every_head, all_heads<Q, Tag>, active_heads<Q, Tag>> {
    using losses = typename detail::losses_of<values<Q, Tag>, type_list<loss::head_balance>, O>::type;
    using observed = typename detail::chosen_in<true, values<Q, Tag>>::type;
  };
  template <Expr Q, class Tag = void>
  using inference_route = active_heads<Q, Tag>;
};

}  // namespace headmix
