#pragma once
// SPDX-License-Identifier: MIT
// The layers of the model in several processes: the same layers, with an option that divides them.

#include <type_traits>

#include "../attention.hpp"
#include "../feed_forward.hpp"
#include "on_ranks.hpp"

namespace lm {

using headmix::expert_parallel, headmix::tensor_parallel;

/// A sublayer without a cache for texts; binds its number `scale`, if it has one.
template <class L>
class RankedSublayer final : public ModuleSublayer<L, Ranked> {
 public:
  template <class... Sizes>
  RankedSublayer(Options const& o, Index layer, char const* name, Ranked const& backend, Sizes... sizes)
      : ModuleSublayer<L, Ranked>(o, seed_of(o, layer, name), backend, sizes...),
        scale_(static_cast<float>(o.moa_scale)) {
    if constexpr (requires { typename L::scale; }) {
      this->module_.program().bind(Residual<L>::of_layer(typename L::scale{}), {&scale_, 1, 1});
    }
  }

 private:
  float scale_;
};

template <class L, class... Sizes>
std::unique_ptr<Sublayer<float>> make_ranked(Options const& o, Index layer, char const* name, Ranked const& backend,
                                             Sizes... sizes) {
  return std::make_unique<RankedSublayer<L>>(o, layer, name, backend, sizes...);
}

/// Moh with the two-stage router, which differs without shared heads.
template <template <class> class Over, class... Option>
std::unique_ptr<Sublayer<float>> make_ranked_moh(Options const& o, Index layer, Ranked const& backend) {
  auto const make = [&]<class Router>(std::type_identity<Router>, auto... shared_heads) {
    using L = Moh<Router, Option...>;
    return make_ranked<Over<L>>(o, layer, "attn", backend, at<typename L::model_dim>(o.width),
                                at<typename L::head_dim>(o.head_dim),
                                at<typename Router::routed_heads>(o.heads - o.shared_heads),
                                at<typename Router::routed_top_k>(o.top_k), shared_heads...);
  };
  using Shared = headmix::TwoStage<dynamic, dynamic, dynamic>;
  if (o.shared_heads == 0) return make(std::type_identity<headmix::TwoStage<0, dynamic, dynamic>>{});
  return make(std::type_identity<Shared>{}, at<typename Shared::shared_heads>(o.shared_heads));
}

/// A multi-layer perceptron with divided hidden units.
struct DividedGelu {
  struct model_dim : headmix::size<dynamic> {};
  struct hidden_dim : headmix::size<dynamic> {};

  struct x : headmix::input<headmix::tokens, model_dim> {};
  struct W_1 : headmix::param<model_dim, headmix::rank_share<hidden_dim>> {};
  struct W_2 : headmix::param<headmix::rank_share<hidden_dim>, model_dim> {};

  static constexpr auto y = all_sum(gelu(replicated(x{}) % W_1{}) % W_2{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// Sublayers by kind and by the divided part, each in a file of its own.
std::unique_ptr<Sublayer<float>> dense_by_data(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> moa_by_data(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> moh_by_data(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> dense_by_heads(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> moh_by_heads(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> moa_by_experts(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> network_by_data(Options const& o, Index layer, Ranked const& backend);
/// Also used with divided attention experts.
std::unique_ptr<Sublayer<float>> network_by_heads(Options const& o, Index layer, Ranked const& backend);
std::unique_ptr<Sublayer<float>> network_by_experts(Options const& o, Index layer, Ranked const& backend);

}  // namespace lm
