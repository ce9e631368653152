#pragma once
// SPDX-License-Identifier: MIT
// The layers of a configuration, for one mask: full.cpp, causal.cpp.

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "../layer/layer.hpp"
#include "configuration.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace bench {

/// @tparam Names  the class that names the leaves of L
template <class L, class Names>
class TimedModule final : public TimedLayer {
 public:
  template <class... Sizes>
  TimedModule(Configuration const& c, Index length, Sizes... sizes)
      : x_(length, c.model_dim), dy_(length, c.model_dim), module_(1, cpu(c), sizes...) {
    if constexpr (requires { typename Names::heads_of_experts; }) {
      Index const experts = headmix::binomial(c.heads, c.heads - c.active);
      for (Index e = 0; e < experts; ++e) {
        for (Index j = 0; j < c.active; ++j) {
          heads_.push_back(static_cast<Int>(headmix::outside_of_subset(c.heads, c.heads - c.active, e, j)));
        }
      }
      module_.program().bind(typename Names::heads_of_experts{}, view<Int const>(heads_.data(), experts, c.active));
    }
  }
  void pass(bool backward) override {
    module_.forward(x_.get());
    double const weights[] = {0.01, 0.001};
    if (backward) module_.backward(dy_.get(), std::span(weights).first(L::losses::size));
  }
  [[nodiscard]] double bytes() override {
    Index elements = module_.input_gradient().size();
    for (auto const& p : module_.parameters()) elements += p.value.size() + p.gradient.size();
    return static_cast<double>(elements) * sizeof(float) + static_cast<double>(module_.program().workspace_bytes());
  }

 private:
  static Cpu<float> cpu(Configuration const& c) { return Cpu<float>(pool(c.threads)); }

  Matrix<float> x_, dy_;
  Module<L, Cpu<float>> module_;
  std::vector<Int> heads_;
};

template <class Mask>
std::unique_ptr<TimedLayer> make_layer(Configuration const& c, Index length, bool dense) {
  using headmix::at, headmix::dynamic;
  auto const make_named = [&]<class L, class Names>(std::type_identity<L>, std::type_identity<Names>,
                                                    auto... sizes) -> std::unique_ptr<TimedLayer> {
    return std::make_unique<TimedModule<L, Names>>(c, length, at<typename Names::model_dim>(c.model_dim),
                                                   at<typename Names::head_dim>(c.head_dim), sizes...);
  };
  auto const make = [&](auto layer, auto... sizes) { return make_named(layer, layer, sizes...); };
  if (dense) {
    using L = headmix::MultiHead<dynamic, dynamic, dynamic, Mask>;
    return make(std::type_identity<L>{}, at<typename L::heads>(c.heads), at<typename L::kv_heads>(c.heads));
  }
  if (c.layer == "moa") {
    using Router = headmix::SoftmaxTopK<dynamic, dynamic, headmix::init<headmix::fan_in_uniform>>;
    using L = headmix::Moa<dynamic, dynamic, Router, Mask>;
    return make(std::type_identity<L>{}, at<typename L::experts>(c.heads), at<typename L::top_k>(c.active));
  }
  if (c.layer == "mae") {
    using Mixture = headmix::Mae<dynamic, dynamic, dynamic, Mask, headmix::left_out_heads<dynamic>>;
    using L = typename Mixture::template expert<headmix::choice::drawn>;
    return make_named(std::type_identity<L>{}, std::type_identity<Mixture>{}, at<typename Mixture::heads>(c.heads),
                      at<typename Mixture::expert_heads>(c.active),
                      at<typename Mixture::experts>(headmix::binomial(c.heads, c.heads - c.active)));
  }
  auto const make_moh = [&]<class Router>(std::type_identity<Router>) {
    return make(std::type_identity<headmix::Moh<dynamic, dynamic, Router, Mask>>{},
                at<typename Router::shared_heads>(c.shared), at<typename Router::routed_heads>(c.heads - c.shared),
                at<typename Router::routed_top_k>(c.active - c.shared));
  };
  if (c.layer == "moh") return make_moh(std::type_identity<headmix::TwoStage<dynamic, dynamic, dynamic>>{});
  return make_moh(std::type_identity<headmix::QueryNorm<dynamic, dynamic, dynamic, headmix::estimator::active>>{});
}

}  // namespace bench
