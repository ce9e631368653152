#pragma once
// SPDX-License-Identifier: MIT
// The router of MoA (Zhang et al. 2022, section 3.1): the k most probable of E experts for every token.

#include "headmix/expr/linear.hpp"
#include "headmix/expr/padding.hpp"
#include "headmix/router/options.hpp"
#include "headmix/router/router.hpp"

namespace headmix {

/// The options of SoftmaxTopK. The default losses are load_balance and z.
using softmax_top_k_options = accepts<gating::policy, option::noise, option::sampling, option::init, loss::policy>;

/// route<X>: X [rows, d] -> index Int [rows, top_k], best first, and gate [rows, top_k]; parameter W_g [d, experts],
/// and with noise W_noise [d, experts], too. Choosing 0 or more than all experts is an error.
///
/// @tparam Experts number of experts, or `dynamic`
/// @tparam TopK experts per token, or `dynamic`
/// @tparam Options see softmax_top_k_options
template <Index Experts, Index TopK, class... Options>
struct SoftmaxTopK {
  using O = option_set<softmax_top_k_options, Options...>;
  using Gating = typename O::template get<gating::policy>;
  using Noise = typename O::template get<option::noise>;
  using Choice = typename O::template get<option::sampling>;
  struct experts : size<Experts> {};
  struct top_k : size<TopK> {};

  /// The values of a route, read by its losses.
  template <Expr X, class Tag>
  struct values {
    struct W_g : router_param<cols<X>, experts> {
      using initializer = typename O::template get<option::init>::initializer;
    };
    struct W_noise : router_param<cols<X>, experts> {};
    static constexpr bool all = detail::contains<typename O::options, loss::z_with_padding>;
    // clang-format off
    static constexpr auto z_all = Noise::template logits<W_g, W_noise>(either<all>(with_padding(X{}), X{}));
    static constexpr auto z = either<all>(without_padding_as(X{}, z_all), z_all);  // z_t = q_t W_g (+ noise)
    static constexpr auto p = softmax(z);                        // p_t = softmax(z_t)                        (7)
    static constexpr auto index = Choice::template choose<top_k>(p); // G(t) = top-k of p_t                       (8)
    static constexpr auto chosen = index;                        // all experts are routed
    static constexpr auto p_chosen = gather_cols(p, index);      // p_{t,i}, i in G(t)
    static constexpr auto gate = Gating::weights(p_chosen);      // w_{t,i} = p_{t,i} / detach(sum_j p_{t,j}) (9)
    static constexpr auto load = load_balance(p, index);         // L_a = E sum_i P_i f_i                     (13)-(15)
    static constexpr auto z_2 = z_loss(z);                       // L_z = mean_t (log sum_i exp z_{t,i})^2    (16)
    // clang-format on
  };
  template <Expr X, class Tag = void>
  struct route : values<X, Tag> {
    using losses = typename detail::losses_of<values<X, Tag>, type_list<loss::load_balance, loss::z>, O>::type;
  };
};

namespace detail {
template <Index Experts, Index TopK, class Options>
struct softmax_top_k_with;
template <Index Experts, Index TopK, class... Options>
struct softmax_top_k_with<Experts, TopK, type_list<Options...>> {
  using type = SoftmaxTopK<Experts, TopK, Options...>;
};
/// The options, with the default of each kind that none of them belongs to.
template <class Kind, class Default, class... Options>
using with_default = concat<type_list<Options...>,
                            std::conditional_t<(is_of_kind<Options, Kind>() || ...), type_list<>, type_list<Default>>>;
template <class... Options>
using noisy_options = unique<concat<with_default<gating::policy, gating::renormalized, Options...>,
                                    with_default<option::noise, headmix::noise<>, Options...>>>;
}  // namespace detail

/// The noisy top-k router (MoA, equations 2 and 3): SoftmaxTopK with gating::renormalized and noise<>, unless the
/// options name another gating or noise.
template <Index Experts, Index TopK, class... Options>
using NoisyTopK = typename detail::softmax_top_k_with<Experts, TopK, detail::noisy_options<Options...>>::type;

}  // namespace headmix
