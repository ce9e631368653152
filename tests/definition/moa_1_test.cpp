// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 8 to 15 of 54.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_1 {

struct configuration_8 {
  static constexpr char const* name = "moa 8";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, loss::cv_squared>, neighbouring_keys, context_dim<5>,
      probability_dropout<1, 4>, output_bias, geometric_alibi, rope<>, value_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .value_bias = true, .output_bias = true,
            .context_width = 5, .rope_theta = 10000, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6,
            .routed = 0, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "moa 9";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      kv_heads<2>, neighbouring_keys, rope<dynamic>, output_dropout<1, 4>, soft_cap<2>, probability_dropout<1, 4>,
      key_bias, query_bias, context_dim<5>, padded, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::place_and_head}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1, .routed = 5,
            .paper_scaling = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "moa 10";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw, noise<>, sampled<1>>, output_dropout<1, 4>, context_dim<5>,
      sliding_window<3>, key_bias, query_bias, kv_heads<2>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true, .kv_heads = 2,
            .context_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2, .gating = gating_kind::raw, .noise = true,
            .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "moa 11";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::renormalized, loss::z, loss::cv_squared>, padded, key_bias,
      value_bias, kv_heads<2>, neighbouring_keys, alibi, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .key_bias = true, .value_bias = true, .kv_heads = 2,
            .padded = true, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}},
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::renormalized,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "moa 12";
  using layer = Moa<6, 4, TwoStage<1, 5, 2>, output_bias, query_bias, soft_cap<2>, value_bias, alibi>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .value_bias = true, .output_bias = true,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}}, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 1, .routed = 5, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "moa 13";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>, rope<>,
      value_bias, query_bias, soft_cap<5, 2>, causal, key_bias, output_bias>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true, .value_bias = true,
            .output_bias = true, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2.5}},
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0, .routed = 6,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "moa 14";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::detached, noise<number<0>>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, context_dim<5>, rope<dynamic>, padded, learned_slope, causal, probability_dropout<1, 4>,
      place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .context_width = 5, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .noise = true, .noise_floor = 0,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "moa 15";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::detached, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, kv_heads<2>, soft_cap<dynamic>, padded, output_dropout<1, 4>, first_and_latest_keys,
      key_bias, output_bias, context_dim<5>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .key_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .padded = true, .maps = {{map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2, .sampled = 2,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 15") { check<configuration_15>(); }

}  // namespace headmix::definition::moa_1
