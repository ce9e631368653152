// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 48 to 53 of 54.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_6 {

struct configuration_48 {
  static constexpr char const* name = "moa 48";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::cv_squared>, query_bias, value_bias, key_bias,
      kv_heads<2>, context_dim<5>, output_bias, soft_cap<2>, neighbouring_keys, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .maps = {{map_kind::soft_cap,
            2}, {map_kind::learned_gain}}, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0,
            .routed = 6, .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 48") { check<configuration_48>(); }

struct configuration_49 {
  static constexpr char const* name = "moa 49";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, loss::cv_squared>, padded, alibi, output_bias, rope<dynamic>, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::moa, .output_bias = true, .padded = true, .rope_theta = 50, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2,
            .routed = 4, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 49") { check<configuration_49>(); }

struct configuration_50 {
  static constexpr char const* name = "moa 50";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>, value_bias,
      kv_heads<2>, probability_dropout<1, 4>, first_and_latest_keys, geometric_alibi, padded, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .value_bias = true, .kv_heads = 2,
            .padded = true, .maps = {{map_kind::geometric_alibi}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0, .routed = 6,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 50") { check<configuration_50>(); }

struct configuration_51 {
  static constexpr char const* name = "moa 51";
  using layer = Moa<6, 4, TwoStage<2, 4, 1>, rope<>, padded, output_bias, geometric_alibi, neighbouring_keys, key_bias,
      context_dim<5>, kv_heads<2>, query_bias, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 51") { check<configuration_51>(); }

struct configuration_52 {
  static constexpr char const* name = "moa 52";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, sampled<1>, init<fan_in_uniform>>, padded,
      alibi, probability_dropout<1, 4>, context_dim<5>, causal, output_dropout<1, 4>, output_bias, value_bias,
      rope<dynamic>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .value_bias = true, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::alibi}, {map_kind::soft_cap,
            1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 4, .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .sampled = 1,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 52") { check<configuration_52>(); }

struct configuration_53 {
  static constexpr char const* name = "moa 53";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::load_balance, loss::z>, key_bias, output_bias,
      learned_slope, rope<>, kv_heads<2>, probability_dropout<1, 4>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .key_bias = true, .output_bias = true, .kv_heads = 2, .rope_theta = 10000,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0,
            .routed = 6, .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 53") { check<configuration_53>(); }

}  // namespace headmix::definition::moa_6
