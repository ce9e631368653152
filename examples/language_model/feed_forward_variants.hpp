#pragma once
// SPDX-License-Identifier: MIT
// The feed-forward mixtures of --ffn-variant: those of feed_forward.hpp with one change.

#include "feed_forward.hpp"

namespace lm {

/// A router whose weights of a token sum to 1.
using RenormalizedRouter =
    headmix::SoftmaxTopK<dynamic, dynamic, headmix::gating::renormalized, headmix::loss::first_choice_balance,
                         headmix::init<headmix::fan_in_uniform>>;
using RealExperts = Experts<headmix::weights::real>;
template <class Router, class... Option>
using SmoeVariant = headmix::Smoe<dynamic, Router, RealExperts, Option...>;
template <class Router, class... Option>
using MhMoeVariant = headmix::MhMoe<dynamic, dynamic, Router, RealExperts, Option...>;

/// Calls f(std::type_identity<L>, sizes...) for the mixture of --ffn and --ffn-variant.
template <class F>
auto with_variant(Options const& o, F f) {
  using headmix::at, headmix::no_head, headmix::no_merge;
  using SharedExpert = headmix::shared_expert<RealExperts>;
  auto const call = [&]<class L>(std::type_identity<L> layer, auto... sizes) {
    return f(layer, at<typename L::model_dim>(o.width), at<typename L::experts>(o.ffn_experts),
             at<typename L::top_k>(o.ffn_top_k), at<typename L::network::hidden_dim>(o.hidden), sizes...);
  };
  auto const split = [&]<class L>(std::type_identity<L> layer, auto... sizes) {
    return call(layer, at<typename L::split>(o.split), sizes...);
  };
  auto const hidden_of_shared = [&]<class L>(std::type_identity<L>) {
    return at<typename RealExperts::template shared<typename L::model_dim>::hidden_dim>(dense_hidden(o));
  };
  if (o.ffn == Ffn::smoe) {
    if (o.ffn_variant == FfnVariant::renormalized) return call(std::type_identity<SmoeVariant<RenormalizedRouter>>{});
    std::type_identity<SmoeVariant<ExpertRouter, SharedExpert>> const shared;
    return call(shared, hidden_of_shared(shared));
  }
  if (o.ffn_variant == FfnVariant::renormalized) return split(std::type_identity<MhMoeVariant<RenormalizedRouter>>{});
  if (o.ffn_variant == FfnVariant::no_head) return split(std::type_identity<MhMoeVariant<ExpertRouter, no_head>>{});
  if (o.ffn_variant == FfnVariant::no_merge) return split(std::type_identity<MhMoeVariant<ExpertRouter, no_merge>>{});
  if (o.ffn_variant == FfnVariant::no_head_no_merge)
    return split(std::type_identity<MhMoeVariant<ExpertRouter, no_head, no_merge>>{});
  std::type_identity<MhMoeVariant<ExpertRouter, SharedExpert>> const shared;
  return split(shared, hidden_of_shared(shared));
}

template <class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward_variant(Options const& o, Index layer,
                                                                              Backend const& backend) {
  if (!has_mixture(o, layer)) return make_feed_forward<Weights::real>(o, layer, backend);
  return with_variant(
      o, [&]<class L>(std::type_identity<L>, auto... sizes) -> std::unique_ptr<Sublayer<typename Backend::scalar>> {
        return std::make_unique<ModuleSublayer<L, Backend>>(o, seed_of(o, layer, "ffn"), backend, sizes...);
      });
}

}  // namespace lm
