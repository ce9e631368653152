#pragma once
// SPDX-License-Identifier: MIT
// The kinds of feed-forward networks: one dense GELU network, and mixtures of SwiGLU experts.

#include <type_traits>

#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"
#include "network.hpp"

namespace lm {

using headmix::dynamic;

template <class W>
struct Gelu {
  struct model_dim : headmix::size<dynamic> {};
  struct hidden_dim : headmix::size<dynamic> {};

  struct x : headmix::input<headmix::tokens, model_dim> {};
  struct W_1 : headmix::param<model_dim, hidden_dim> {};
  struct W_2 : headmix::param<hidden_dim, model_dim> {};

  static constexpr auto y = W::product(gelu(W::product(x{}, W_1{})), W_2{});

  using losses = headmix::type_list<>;
  using observed = headmix::type_list<>;
};

/// The router of the published code of MH-MoE.
using ExpertRouter = headmix::SoftmaxTopK<dynamic, dynamic, headmix::gating::raw, headmix::loss::first_choice_balance,
                                          headmix::init<headmix::fan_in_uniform>>;
template <class W>
using Experts = headmix::FeedForward<dynamic, headmix::activation::swiglu, W>;
template <class W>
using Smoe = headmix::Smoe<dynamic, ExpertRouter, Experts<W>>;
template <class W>
using MhMoe = headmix::MhMoe<dynamic, dynamic, ExpertRouter, Experts<W>>;

/// h + L(x). Its gradient by h is its own.
template <class L>
struct Added {
  using x = typename L::x;
  struct h : headmix::constant<headmix::tokens, typename L::model_dim> {};

  static constexpr auto y = h{} + L::y;

  using losses = typename L::losses;
  using observed = typename L::observed;
};

template <class L, class Backend>
class ModuleNetwork final : public Network {
 public:
  template <class... Sizes>
  ModuleNetwork(Options const& o, Index layer, Backend const& backend, Sizes... sizes)
      : module_(seed(o, layer), backend, headmix::at<typename L::model_dim>(o.width), sizes...),
        experts_(is_mixture ? o.ffn_experts : 0),
        balance_(o.balance) {}

  view<float const> forward(view<float const> n, view<float const> h, segments s) override {
    module_.program().bind(typename Added<L>::h{}, h);
    return module_.forward(n, s);
  }
  void backward(view<float const> dy) override {
    if constexpr (is_mixture) {
      module_.backward(dy, {balance_});
    } else {
      module_.backward(dy);
    }
  }
  [[nodiscard]] view<float const> input_gradient() const override { return module_.input_gradient(); }
  void zero_gradients() override { module_.zero_gradients(); }
  [[nodiscard]] std::vector<headmix::parameter<float>> const& parameters() const override {
    return module_.parameters();
  }
  [[nodiscard]] view<Int const> chosen() const override {
    if constexpr (is_mixture) {
      return module_.observed();
    } else {
      return {};
    }
  }
  [[nodiscard]] Index experts() const override { return experts_; }

 private:
  static constexpr bool is_mixture = L::observed::size > 0;
  /// Another one for each layer.
  static std::uint64_t seed(Options const& o, Index layer) {
    auto const b = headmix::Random(o.seed, 0x6d697874757265).block(static_cast<std::uint64_t>(layer));
    return std::uint64_t{b.word[0]} << 32 | b.word[1];
  }

  headmix::Module<Added<L>, Backend> module_;
  Index experts_;
  double balance_;
};

template <Weights W, class Backend>
std::unique_ptr<Network> make_network(Options const& o, Index layer, Backend const& backend) {
  using headmix::at;
  using Of = std::conditional_t<W == Weights::real, headmix::weights::real, headmix::weights::ternary>;
  if (!has_mixture(o, layer)) {
    return std::make_unique<ModuleNetwork<Gelu<Of>, Backend>>(o, layer, backend,
                                                              at<typename Gelu<Of>::hidden_dim>(4 * o.width));
  }
  auto const experts = at<ExpertRouter::experts>(o.ffn_experts);
  auto const top_k = at<ExpertRouter::top_k>(o.ffn_top_k);
  if (o.ffn == Ffn::smoe) {
    auto const hidden = at<typename Smoe<Of>::network::hidden_dim>(o.hidden);
    return std::make_unique<ModuleNetwork<Smoe<Of>, Backend>>(o, layer, backend, experts, top_k, hidden);
  }
  auto const split = at<typename MhMoe<Of>::split>(o.split);
  auto const hidden = at<typename MhMoe<Of>::network::hidden_dim>(o.hidden);
  return std::make_unique<ModuleNetwork<MhMoe<Of>, Backend>>(o, layer, backend, split, experts, top_k, hidden);
}

}  // namespace lm
