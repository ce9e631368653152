#pragma once
// SPDX-License-Identifier: MIT
// The layers that bench/gpu times and bench/gpu_model models, and what their rows are called.

#include <string>

#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace bench {

using headmix::Index;

template <class Mask>
inline constexpr char const* mask_name = "all keys";
template <>
inline constexpr char const* mask_name<headmix::causal> = "causal";

/// MoA and dense attention of the same activated width.
struct shape_a {
  static constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 128, k = 8,
                         experts = 32;
  template <class Mask>
  using Mixture = headmix::Moa<d, h, headmix::SoftmaxTopK<experts, k>, Mask>;
  template <class Mask>
  using Dense = headmix::MultiHead<d, k, h, Mask>;

  template <class Mask>
  static std::string mixture_name() {
    return std::string("MoA 8 of 32 x 128, ") + mask_name<Mask>;
  }
  template <class Mask>
  static std::string dense_name() {
    return std::string("dense 8 x 128, ") + mask_name<Mask>;
  }
};

/// MH-MoE at the width of the published models: 3 sub-tokens of a token, each to 3 of 96 experts.
struct mh_moe_shape {
  static constexpr Index d = 768, split = 3, experts = 96, k = 3, hidden = 512;
  static constexpr Index few_tokens = 4096, many_tokens = 65536;
  using Router = headmix::SoftmaxTopK<experts, k, headmix::gating::raw, headmix::loss::first_choice_balance>;
  template <class Weights = headmix::weights::real, class... Options>
  using Heads = headmix::MhMoe<d, split, Router, headmix::FeedForward<hidden, Weights>, Options...>;

  static std::string name_of_many() { return "MH-MoE 3 of 96 x 512, 65536 tokens"; }
};

}  // namespace bench
