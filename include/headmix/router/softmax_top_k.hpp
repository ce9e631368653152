#pragma once
// SPDX-License-Identifier: MIT
// The router of MoA (Zhang et al. 2022, section 3.1): the k most probable of E experts for every token.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/router/options.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// route<X>: X [rows, d] -> index Int [rows, K], best first, and gate [rows, K]; parameter W_g [d, E], zero at the
/// start without another `init<Initial>`, and with noise W_noise [d, E], too. Choosing 0 or more than E experts is an
/// error.
///
/// @tparam Experts number of experts, or `dynamic`
/// @tparam TopK experts per token, or `dynamic`
/// @tparam Options a gating (`gating::detached` without one), `noise<>`, `sampled<N>`, `init<Initial>`, and the
/// losses in their order
///   (`loss::load_balance, loss::z` without any)
template <Index Experts, Index TopK, class... Options>
struct SoftmaxTopK {
  static_assert((is_option<Options, gating::policy, option::noise, option::sampling, option::init, loss::policy> &&
                 ...),
                "headmix: the options of SoftmaxTopK are a gating, noise<>, sampled<N>, init<Initial> and losses");
  using Gating = find_option<gating::policy, gating::detached, Options...>;
  using Noise = find_option<option::noise, option::noiseless, Options...>;
  using Choice = find_option<option::sampling, option::best, Options...>;
  struct E : size<Experts> {};
  struct K : size<TopK> {};

  /// The values of a route, for its losses to read.
  template <Expr X, class Tag>
  struct values {
    struct W_g : router_param<cols<X>, E> {
      using initializer = typename find_option<option::init, init<zeros>, Options...>::initializer;
    };
    struct W_noise : router_param<cols<X>, E> {};
    static constexpr bool all = has_option<loss::z_with_padding, Options...>;
    // clang-format off
    static constexpr auto z_all = Noise::template logits<W_g, W_noise>(either<all>(with_padding(X{}), X{}));
    static constexpr auto z = either<all>(without_padding_as(X{}, z_all), z_all);  // z_t = q_t W_g (+ noise)
    static constexpr auto p = softmax(z);                        // p_t = softmax(z_t)                        (7)
    static constexpr auto index = Choice::template choose<K>(p); // G(t) = top-k of p_t                       (8)
    static constexpr auto chosen = gather_cols(p, index);               // p_{t,i}, i in G(t)
    static constexpr auto gate = Gating::weights(chosen);        // w_{t,i} = p_{t,i} / detach(sum_j p_{t,j}) (9)
    static constexpr auto load = load_balance(p, index);         // L_a = E sum_i P_i f_i                     (13)-(15)
    static constexpr auto z_2 = z_loss(z);                       // L_z = mean_t (log sum_i exp z_{t,i})^2    (16)
    // clang-format on
  };
  template <Expr X, class Tag = void>
  struct route : values<X, Tag> {
    using losses =
        typename detail::losses_of<true, values<X, Tag>, type_list<loss::load_balance, loss::z>, Options...>::type;
  };
};

/// The noisy top-k router (MoA, equations 2 and 3).
template <Index Experts, Index TopK, class... Options>
using NoisyTopK = SoftmaxTopK<Experts, TopK, Options..., gating::renormalized, noise<>>;

static_assert(RouterPolicy<SoftmaxTopK<8, 2>>);
static_assert(RouterPolicy<SoftmaxTopK<dynamic, dynamic>>);
static_assert(RouterPolicy<NoisyTopK<8, 2, sampled<1>, loss::cv_squared>>);

}  // namespace headmix
