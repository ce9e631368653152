// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 32 to 39 of 54.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_4 {

struct configuration_32 {
  static constexpr char const* name = "moa 32";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, noise<number<0>>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, context_dim<5>, kv_heads<2>, output_bias,
      value_bias, rope<dynamic>, padded, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5,
            .padded = true, .rope_theta = 50, .maps = {{map_kind::place_and_head}},
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "moa 33";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw, init<fan_in_uniform>>, value_bias, output_dropout<1, 4>,
      key_bias, padded, context_dim<5>, rope<>, probability_dropout<1, 4>, query_bias, causal, output_bias,
      geometric_alibi, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::raw, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "moa 34";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, noise<>, sampled<2>, loss::z, loss::cv_squared>, causal,
      context_dim<5>, soft_cap<2>, geometric_alibi>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .context_width = 5, .maps = {{map_kind::soft_cap, 2},
            {map_kind::geometric_alibi}}, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4,
            .noise = true, .sampled = 2, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "moa 35";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, noise<number<0>>, loss::z, loss::cv_squared>,
      first_and_latest_keys, context_dim<5>, probability_dropout<1, 4>, rope<>, soft_cap<2>, key_bias, output_bias,
      learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .key_bias = true, .output_bias = true,
            .context_width = 5, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .noise = true,
            .noise_floor = 0, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 35") { check<configuration_35>(); }

struct configuration_36 {
  static constexpr char const* name = "moa 36";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, noise<number<0>>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, rope<>, neighbouring_keys, output_bias, value_bias,
      learned_slope, query_bias, context_dim<5>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .rope_theta = 10000, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::renormalized, .noise = true, .noise_floor = 0,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 36") { check<configuration_36>(); }

struct configuration_37 {
  static constexpr char const* name = "moa 37";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::renormalized, init<fan_in_uniform>, loss::first_choice_balance,
      loss::head_balance>, padded, geometric_alibi, neighbouring_keys, probability_dropout<1, 4>, value_bias,
      rope<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .value_bias = true, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::geometric_alibi}}, .probability_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 1, .gating = gating_kind::renormalized, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 37") { check<configuration_37>(); }

struct configuration_38 {
  static constexpr char const* name = "moa 38";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>,
      probability_dropout<1, 4>, learned_slope, padded, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .padded = true, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 38") { check<configuration_38>(); }

struct configuration_39 {
  static constexpr char const* name = "moa 39";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, scaling::paper>, rope<>, output_dropout<1, 4>, value_bias, learned_slope,
      key_bias, output_bias, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .key_bias = true, .value_bias = true, .output_bias = true, .rope_theta = 10000,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6,
            .routed = 0, .paper_scaling = true, .losses = {}};
  }
};
TEST_CASE("definition: moa 39") { check<configuration_39>(); }

}  // namespace headmix::definition::moa_4
