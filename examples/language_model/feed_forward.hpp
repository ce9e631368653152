#pragma once
// SPDX-License-Identifier: MIT
// The kinds of feed-forward networks: one dense GELU network, and mixtures of SwiGLU experts.

#include <type_traits>

#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/smoe.hpp"
#include "module_sublayer.hpp"

namespace lm {

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

/// The feed-forward network of block `layer`, with weights W.
template <Weights W, class Backend>
std::unique_ptr<Sublayer<typename Backend::scalar>> make_feed_forward(Options const& o, Index layer,
                                                                      Backend const& backend) {
  using headmix::at;
  using Of = std::conditional_t<W == Weights::real, headmix::weights::real, headmix::weights::ternary>;
  auto const make = [&]<class L>(std::type_identity<L>, auto... sizes) {
    return std::make_unique<ModuleSublayer<L, Backend>>(o, seed_of(o, layer, "ffn"), backend,
                                                        at<typename L::model_dim>(o.width), sizes...);
  };
  if (!has_mixture(o, layer)) {
    return make(std::type_identity<Gelu<Of>>{}, at<typename Gelu<Of>::hidden_dim>(4 * o.width));
  }
  auto const experts = at<ExpertRouter::experts>(o.ffn_experts);
  auto const top_k = at<ExpertRouter::top_k>(o.ffn_top_k);
  if (o.ffn == Ffn::smoe) {
    auto const hidden = at<typename Smoe<Of>::network::hidden_dim>(o.hidden);
    return make(std::type_identity<Smoe<Of>>{}, experts, top_k, hidden);
  }
  auto const split = at<typename MhMoe<Of>::split>(o.split);
  auto const hidden = at<typename MhMoe<Of>::network::hidden_dim>(o.hidden);
  return make(std::type_identity<MhMoe<Of>>{}, split, experts, top_k, hidden);
}

}  // namespace lm
