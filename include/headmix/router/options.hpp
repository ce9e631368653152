#pragma once
// SPDX-License-Identifier: MIT
// Options of routers that choose experts by probability: weights of chosen experts, noise, sampling, losses.

#include "headmix/expr/loss.hpp"
#include "headmix/expr/options.hpp"
#include "headmix/expr/random.hpp"

namespace headmix {

namespace option {
struct no_noise;
struct noise : option_kind {
  using standard = no_noise;
  static constexpr char const *syntax = "noise<>, noise<number<n, d>>",
                              *meaning = "noisy logits, with this floor of the deviation", *without = "logits x W_g";
};
struct most_probable;
struct sampling : option_kind {
  using standard = most_probable;
  static constexpr char const *syntax = "sampled<n>", *meaning = "n of the top_k experts are drawn",
                              *without = "the most probable ones";
};
struct zero_init;
struct init : option_kind {
  using standard = zero_init;
  static constexpr char const *syntax = "init<fan_in_uniform>", *meaning = "how W_g starts",
                              *without = "0, where all experts are tied";
};
}  // namespace option

/// Initial value of W_g: `init<fan_in_uniform>` and the like. Without it W_g is 0, and all experts are tied.
template <class Initializer>
struct init : option::init {
  using initializer = Initializer;
};
struct option::zero_init {
  using initializer = zeros;
};

/// Weights of the chosen experts as a function of their probabilities p, [R, K]. A custom gating derives from
/// `gating::policy`.
namespace gating {
struct detached;
struct policy : option_kind {
  using standard = detached;
  static constexpr char const *syntax = "gating::detached, gating::raw, gating::renormalized, or a custom one",
                              *meaning = "weights of the chosen experts", *without = "gating::detached";
};
/// p / detach(sum p): MoA's equation 9. The gradient also reaches experts that were not chosen, even for K = 1.
struct detached : policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return p / headmix::detach(row_sum(p));
  }
};
/// p: MoA's published code.
struct raw : policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return p;
  }
};
/// p / sum p: no gradient reaches the experts that were not chosen (Shazeer et al. 2017; JetMoE).
struct renormalized : policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return p / row_sum(p);
  }
};
}  // namespace gating

/// Noisy logits, z = x W_g + eps (softplus(x W_noise) + Floor) with eps ~ N(0, 1) drawn for every row and expert
/// (Shazeer et al. 2017, equations 4 and 5). The published code of MoA has a floor of 0.01, the papers none:
/// `noise<number<0>>`.
template <class Floor = number<1, 100>>
struct noise : option::noise {
  template <class W_g, class W_noise, Expr X>
  static constexpr auto logits(X x) {
    constexpr auto z = upcast(X{} % W_g{});
    return z + draw<draws::normal, random_stream::gating_noise>(z) * (softplus(upcast(x % W_noise{})) + Floor{});
  }
};

/// The K - Sampled most probable experts, and Sampled more drawn without replacement with probabilities proportional to
/// p + 1e-6 (the published code of MoA). Without randomness, the K most probable experts.
template <Index Sampled>
struct sampled : option::sampling {
  static_assert(Sampled >= 1, "headmix: sampled<N> draws at least one expert");
  template <class K, Expr P>
  static constexpr auto choose(P p) {
    static_assert(K::value != dynamic, "headmix: a router that samples has a static number of chosen experts");
    static_assert(K::value == dynamic || K::value >= Sampled,
                  "headmix: a router cannot sample more experts than it chooses");
    constexpr auto scores =
        log(P{} + number<1, 1'000'000>{}) + draw<draws::gumbel, random_stream::expert_sampling>(P{});
    if constexpr (K::value == Sampled) {
      return arg_top_k<K>(scores);
    } else {
      constexpr auto first = arg_top_k<size<K::value - Sampled>>(p);
      // A million exceeds all differences of scores, so no expert is chosen twice.
      return concat_cols(first, arg_top_k<size<Sampled>>(scores - one_hot(first) * number<1'000'000>{}));
    }
  }
};

/// Losses of a router, [1, 1] each; the default is those of its paper. A custom loss derives from `loss::policy`; its
/// `of<R>` reads the values of the route R: probabilities p [rows, E_r] of the routed experts and `chosen`, Int [rows,
/// K_r], the chosen ones among them; except for QueryNorm also the logits z of p, and index and gate of all experts.
/// The policy's name is the name of the loss in weights by name. The router's options refuse an undefined loss, with
/// the reason.
namespace loss {
struct policy : option_kind {
  static constexpr bool several = true, distinct = true;
  static constexpr char const *syntax = "loss::load_balance, loss::z, ... (headmix/router/options.hpp)",
                              *meaning = "the router's losses, in this order", *without = "those of the paper";
};
/// E_r sum_i P_i f_i over the routed experts, 1 at balance.
struct load_balance : policy {
  template <class R>
  static constexpr auto of = headmix::load_balance(R::p, R::chosen);
};
/// E sum_i P_i f_i with the mean probability P_i and f_i counted by the first choice of each row alone, for any K. The
/// published code of MH-MoE.
struct first_choice_balance : policy {
  template <class R>
  static constexpr auto of = value_of<cols<std::remove_cvref_t<decltype(R::p)>>>{} *
                             sum(col_mean(R::p) * col_mean(one_hot(first_choice(R::chosen))));
};
/// mean_t (log sum_i exp z_{t,i})^2 over the logits of the routed experts.
struct z : policy {
  template <class R>
  static constexpr auto of = z_loss(R::z);
};
/// mean_t (log sum_i exp z_{t,i})^2 including the rows of padding, which then have a gradient: the published code of
/// MoA.
struct z_with_padding : policy {
  template <class R>
  static constexpr auto of = z_loss(R::z_all);
};
/// E_r sum_i P_i f_i over the routed experts, P_i the mean probability and f_i the share of the rows that chose expert
/// i: K_r at balance. The published code of MoH.
struct head_balance : policy {
  template <class R>
  static constexpr auto of = value_of<cols<std::remove_cvref_t<decltype(R::p)>>>{} *
                             sum(col_mean(R::p) * col_mean(one_hot(R::chosen)));
};
/// sum_i P_i f_i, without the factor E_r of head_balance: equation 7 of the paper, K_r / E_r at balance.
struct head_balance_unscaled : policy {
  template <class R>
  static constexpr auto of = sum(col_mean(R::p) * col_mean(one_hot(R::chosen)));
};
/// The squared coefficient of variation of the gates' sums, over all experts.
struct cv_squared : policy {
  template <class R>
  static constexpr auto of = headmix::cv_squared(R::gate, R::index);
};
}  // namespace loss

namespace detail {
template <class Values, class List>
struct loss_values;
template <class Values, class... L>
struct loss_values<Values, type_list<L...>> {
  /// Returns by value: nvcc 13 keeps the const of decltype(variable template), and an expression type is not const.
  template <class Policy, Expr A>
  static constexpr auto named(A loss) {
    return named_as<Policy>(loss);
  }
  template <Expr... A>
  static constexpr type_list<A...> list_of(A...) {
    return {};
  }
  using type = decltype(list_of(named<L>(L::template of<Values>)...));
};
/// True for the losses that a schema of options accepts.
template <class Options>
struct is_taken_by {
  template <class L>
  static constexpr bool value = !Options::template is_refused<L>;
};
/// A list of the chosen heads among the routed heads; empty without routed heads.
template <bool Any, class Values>
struct chosen_in {
  using type = type_list<>;
};
template <class Values>
struct chosen_in<true, Values> {
  using type = type_list<std::remove_cvref_t<decltype(Values::chosen)>>;
};
/// The losses among the options, or the default ones, for a route's values. Refused losses have been reported before.
template <class Values, class Defaults, class Options>
struct losses_of {
  using given = typename Options::template all<loss::policy>;
  using taken = filter<unique<given>, is_taken_by<Options>>;
  using type = typename loss_values<Values, std::conditional_t<given::size == 0, Defaults, taken>>::type;
};
}  // namespace detail

// Defaults of the option kinds.
namespace option {
/// Logits z = x W_g.
struct no_noise {
  template <class W_g, class, Expr X>
  static constexpr auto logits(X x) {
    return upcast(x % W_g{});
  }
};
/// Experts are the K most probable ones.
struct most_probable {
  template <class K, Expr P>
  static constexpr auto choose(P p) {
    return arg_top_k<K>(p);
  }
};
}  // namespace option

}  // namespace headmix
