#pragma once
// SPDX-License-Identifier: MIT
// The layers timed by bench/gpu, and the names of their rows.

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

/// MoA of heads of `head_dim` columns, and dense attention of the same activated width.
template <Index head_dim>
struct moa_shape {
  static constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = head_dim, k = 8,
                         experts = 32;
  static constexpr Index long_length = 8192;
  template <class Mask>
  using Mixture = headmix::Moa<d, h, headmix::SoftmaxTopK<experts, k>, Mask>;
  template <class Mask>
  using Dense = headmix::MultiHead<d, k, h, Mask>;

  template <class Mask>
  static std::string name(std::string const& layer, Index at) {
    return layer + " x " + std::to_string(h) + ", " + mask_name<Mask> +
           (at == length ? "" : ", T=" + std::to_string(at));
  }
  template <class Mask>
  static std::string mixture_name(Index at = length) {
    return name<Mask>("MoA 8 of 32", at);
  }
  template <class Mask>
  static std::string dense_name(Index at = length) {
    return name<Mask>("dense 8", at);
  }
};
using shape_a = moa_shape<128>;

/// The attention of an 8B LLaMA 3, and MoH with its own router in its place.
struct llama_shape {
  static constexpr Index d = 4096, h = 128, heads = 32, groups = 8;
  using Dense = headmix::MultiHead<d, heads, h, headmix::causal, headmix::kv_heads<groups>>;
  /// `shared` heads always, and 8 of the others.
  template <Index shared, class... Options>
  using Mixture = headmix::Moh<d, h, headmix::TwoStage<shared, heads - shared, 8>, headmix::causal,
                               headmix::kv_heads<groups>, Options...>;

  static std::string at(Index sequences, Index length) {
    return "32/8 x 128, " + (sequences == 1 ? "" : std::to_string(sequences) + " x ") + std::to_string(length) +
           " tokens";
  }
  static std::string dense_name(Index sequences, Index length) { return "grouped-query " + at(sequences, length); }
  static std::string mixture_name(Index active, Index sequences, Index length) {
    return "MoH " + std::to_string(active) + " of " + at(sequences, length);
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
