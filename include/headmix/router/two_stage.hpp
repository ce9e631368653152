#pragma once
// SPDX-License-Identifier: MIT
// The two-stage router of MoH (Jin et al. 2024, "MoH: Multi-Head Attention as Mixture-of-Head Attention"): shared heads
// are always active, the best routed heads are chosen for every token, and a third softmax weights the two groups.

#include "headmix/expr/linear.hpp"
#include "headmix/router/options.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// Scale of the heads' weights. A custom scaling derives from `scaling::policy`.
namespace scaling {
struct unit_mean;
struct policy : option_kind {
  using standard = unit_mean;
  static constexpr char const *syntax = "scaling::unit_mean, scaling::paper, or a custom one",
                              *meaning = "how large the weights of heads are", *without = "scaling::unit_mean";
};
/// The mean weight of a token's active heads is 1 (the published code): 2 alpha, h_s s, and K_r p / sum p. No gradient
/// reaches heads that were not chosen, nor any head if K_r = 1.
struct unit_mean : policy {
  template <Expr A>
  static constexpr auto groups(A alpha) {
    return number<2>{} * alpha;
  }
  template <Expr S>
  static constexpr auto shared(S s) {
    return value_of<cols<S>>{} * s;
  }
  template <Expr P>
  static constexpr auto routed(P p) {
    return value_of<cols<P>>{} * p / row_sum(p);
  }
};
/// The paper's equations 5 and 6 to the letter: a token's weights sum to at most 1.
struct paper : policy {
  template <Expr A>
  static constexpr auto groups(A alpha) {
    return alpha;
  }
  template <Expr S>
  static constexpr auto shared(S s) {
    return s;
  }
  template <Expr P>
  static constexpr auto routed(P p) {
    return p;
  }
};
}  // namespace scaling

namespace detail {
template <bool Given>
struct two_stage_has_no_padding : std::true_type {
  static_assert(
      !Given,
      "headmix: TwoStage takes no loss::z_with_padding, which is of the published code of MoA: it sees no rows "
      "of padding; write loss::z");
};
template <bool Given>
struct two_stage_without_choice : std::true_type {
  static_assert(!Given,
                "headmix: TwoStage<shared, 0, 0> takes none of load_balance, first_choice_balance, head_balance, "
                "head_balance_unscaled and z: all heads are on, so there is no choice to balance; leave the loss out");
};
template <bool Given>
struct two_stage_of_one_head : std::true_type {
  static_assert(!Given,
                "headmix: TwoStage<1, 0, 0> takes no loss::cv_squared: its only weight is 1; leave the loss out");
};
}  // namespace detail

/// The options of TwoStage. The default loss is head_balance with routed heads, and none without.
using two_stage_options =
    accepts<scaling::policy, loss::policy, refuses_kind<loss::z_with_padding, detail::two_stage_has_no_padding>>;

namespace detail {
/// The checks that refuse losses of a choice, and losses undefined for a single head.
template <Index Shared, Index Routed>
struct two_stage_accepts {
  using type = two_stage_options;
};
template <Index Shared>
struct two_stage_accepts<Shared, 0> {
  using type = and_accepts<two_stage_options, refuses_kind<loss::load_balance, two_stage_without_choice>,
                           refuses_kind<loss::first_choice_balance, two_stage_without_choice>,
                           refuses_kind<loss::head_balance, two_stage_without_choice>,
                           refuses_kind<loss::head_balance_unscaled, two_stage_without_choice>,
                           refuses_kind<loss::z, two_stage_without_choice>>;
};
template <>
struct two_stage_accepts<1, 0> {
  using type = and_accepts<two_stage_accepts<2, 0>::type, refuses_kind<loss::cv_squared, two_stage_of_one_head>>;
};
}  // namespace detail

/// route<X>: X [rows, d] -> index Int [rows, h_s + K_r], the shared heads 0 .. h_s - 1 followed by the chosen heads,
/// best first, and their weights gate. Parameters W_r [d, E_r] with routed heads, W_s [d, h_s] with at least two shared
/// heads, and W_h [d, 2] with both; initial values N(0, 0.02^2).
///
/// `chosen` [rows, K_r] numbers the chosen heads among the routed heads. Without routed heads all heads are active, and
/// the router weights them.
///
/// @tparam Shared number h_s of shared heads; `dynamic` stands for one or more, and has W_s also for one
/// @tparam Routed number E_r of routed heads, or `dynamic`
/// @tparam TopK routed heads per token, K_r, or `dynamic`; 0 if and only if Routed is 0
/// @tparam Options see two_stage_options
template <Index Shared, Index Routed, Index TopK, class... Options>
struct TwoStage {
  using O = option_set<typename detail::two_stage_accepts<Shared, Routed>::type, Options...>;
  static_assert((Routed == 0) == (TopK == 0), "headmix: TwoStage chooses no heads exactly if it has no routed ones");
  static_assert(Shared != 0 || Routed != 0, "headmix: TwoStage needs shared or routed heads");
  using Scale = typename O::template get<scaling::policy>;
  static constexpr bool routes = Routed != 0, grouped = Shared != 0 && Routed != 0;

  struct shared_heads : size<Shared> {};
  struct routed_heads : size<Routed> {};
  struct routed_top_k : size<TopK> {};
  using experts = plus<shared_heads, routed_heads>;
  using top_k = plus<shared_heads, routed_top_k>;

  /// The values of a route, read by its losses.
  template <Expr X, class Tag>
  struct values {
    struct W_s : router_param<cols<X>, shared_heads> {
      using initializer = normal<2, 100>;
    };
    struct W_r : router_param<cols<X>, routed_heads> {
      using initializer = normal<2, 100>;
    };
    struct W_h : router_param<cols<X>, size<2>> {
      using initializer = normal<2, 100>;
    };

   private:
    /// The existing ones of W_h, W_s and W_r side by side: one product with X computes all logits.
    static constexpr auto all_weights() {
      if constexpr (!routes) {
        return W_s{};
      } else if constexpr (!grouped) {
        return W_r{};
      } else if constexpr (Shared == 1) {
        return concat_cols(W_h{}, W_r{});
      } else {
        return concat_cols(W_h{}, concat_cols(W_s{}, W_r{}));
      }
    }
    static constexpr auto logits = upcast(X{} % all_weights());
    using logit_cols = cols<std::remove_const_t<decltype(logits)>>;
    /// The logits of one of these matrices, Count columns starting at First.
    template <Extent First, Extent Count>
    static constexpr auto logits_of() {
      if constexpr (grouped) {
        return gather_cols(logits, iota_cols<First, Count, logit_cols>(logits));
      } else {
        return logits;
      }
    }
    using before_routed = std::conditional_t<Shared == 1, size<2>, plus<size<2>, shared_heads>>;
    /// The weight of a group of heads, if there are two groups.
    template <Index Group>
    static constexpr auto group() {
      return Scale::groups(gather_cols(alpha, iota_cols<size<Group>, size<1>, size<2>>(alpha)));
    }
    template <Index Group, class G>
    static constexpr auto weighed(G g) {
      if constexpr (grouped) {
        return group<Group>() * g;
      } else {
        return g;
      }
    }
    static constexpr auto softmax_of_shared() {
      if constexpr (Shared == 1) {
        return ones_of<rows<X>, shared_heads>();
      } else {
        return Scale::shared(softmax(logits_of<size<2>, shared_heads>()));
      }
    }
    static constexpr auto best_of_routed() {
      if constexpr (routes) {
        return arg_top_k<routed_top_k>(p);
      } else {
        return absent{};
      }
    }
    static constexpr auto softmax_of_chosen() {
      if constexpr (routes) {
        return Scale::routed(gather_cols(p, chosen));
      } else {
        return absent{};
      }
    }
    static constexpr auto active_heads() {
      if constexpr (routes) {
        return shared_and<shared_heads>(chosen);
      } else {
        return iota_cols<size<0>, shared_heads, shared_heads>(X{});
      }
    }
    static constexpr auto active_weights() {
      if constexpr (grouped) {
        return concat_cols(g_s, g_r);
      } else if constexpr (routes) {
        return g_r;
      } else {
        return g_s;
      }
    }

   public:
    // clang-format off
    static constexpr auto alpha = softmax(logits_of<size<0>, size<2>>());    // [a_1, a_2] = Softmax(W_h x)      (6)
    static constexpr auto z = logits_of<before_routed, routed_heads>();      // W_r x
    static constexpr auto p = softmax(z);                                    // Softmax(W_r x)
    static constexpr auto chosen = best_of_routed();                         // Top-K(W_r x)
    static constexpr auto g_s = weighed<0>(softmax_of_shared());             // a_1 Softmax(W_s x)_i, i <= h_s   (5)
    static constexpr auto g_r = weighed<1>(softmax_of_chosen());             // a_2 Softmax(W_r x)_i, i chosen   (5)
    static constexpr auto index = active_heads();                            // g_i = 0 for the other heads      (5)
    static constexpr auto gate = active_weights();
    // clang-format on
  };
  template <Expr X, class Tag = void>
  struct route : values<X, Tag> {
    using default_losses = std::conditional_t<routes, type_list<loss::head_balance>, type_list<>>;
    using losses = typename detail::losses_of<values<X, Tag>, default_losses, O>::type;
    using observed = typename detail::chosen_in<routes, values<X, Tag>>::type;
  };
};

}  // namespace headmix
