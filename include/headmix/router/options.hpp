#pragma once
// SPDX-License-Identifier: MIT
// The options of routers that choose experts by probability: the weights of the chosen ones, noise, sampling, losses.

#include "headmix/expr/loss.hpp"
#include "headmix/expr/options.hpp"
#include "headmix/expr/random.hpp"

namespace headmix {

namespace option {
struct noise {};
struct sampling {};
}  // namespace option

/// How the weights of the chosen experts follow from their probabilities p, [R, K]. A gating of one's own derives from
/// `gating::policy`.
namespace gating {
struct policy {};
/// p / detach(sum p): MoA's equation 9. Also the experts that were not chosen learn, even for K = 1.
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
    constexpr auto z = wide(X{} % W_g{});
    return z + draw<draws::normal, random_stream::gating_noise>(z) * (softplus(wide(x % W_noise{})) + Floor{});
  }
};

/// The K - Sampled most probable experts, and Sampled more drawn without replacement with probabilities proportional to
/// p + 1e-6 (the published code of MoA). Without randomness, the K most probable ones.
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
      return top_k<K>(scores);
    } else {
      constexpr auto first = top_k<size<K::value - Sampled>>(p);
      // A million is far more than scores differ by, so no expert is chosen twice.
      return join(first, top_k<size<Sampled>>(scores - one_hot(first) * number<1'000'000>{}));
    }
  }
};

/// Losses of a router, [1, 1] each. Without any, a router has load_balance and z. A loss of one's own derives from
/// `loss::policy`; its `of<R>` reads the values of the route R: logits z, probabilities p, index and gate.
namespace loss {
struct policy {};
/// E sum_i P_i f_i, 1 at balance.
struct load_balance : policy {
  template <class R>
  static constexpr auto of = headmix::load_balance(R::p, R::index);
};
/// mean_t (log sum_i exp z_{t,i})^2.
struct z : policy {
  template <class R>
  static constexpr auto of = z_loss(R::z);
};
/// The same over the rows of padding too, which have a gradient then: the published code of MoA.
struct z_with_padding : policy {
  template <class R>
  static constexpr auto of = z_loss(R::z_all);
};
/// The squared coefficient of variation of the gates' sums.
struct cv_squared : policy {
  template <class R>
  static constexpr auto of = headmix::cv_squared(R::gate, R::index);
};
}  // namespace loss

/// What the router does without such an option.
namespace option {
/// Logits z = x W_g.
struct noiseless {
  template <class W_g, class, Expr X>
  static constexpr auto logits(X x) {
    return wide(x % W_g{});
  }
};
/// Experts are the K most probable ones.
struct best {
  template <class K, Expr P>
  static constexpr auto choose(P p) {
    return top_k<K>(p);
  }
};
}  // namespace option

}  // namespace headmix
