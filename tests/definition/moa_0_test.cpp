// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 0 to 7 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_0 {

struct configuration_0 {
  static constexpr char const* name = "moa 0";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, noise<number<0>>, sampled<2>, loss::z,
      loss::cv_squared>, padded, kv_heads<2>, output_bias, key_bias, alibi, probability_dropout<1, 4>, value_bias,
      context_dim<5>, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .key_bias = true, .value_bias = true, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .maps = {{map_kind::alibi}, {map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 2, .gating = gating_kind::renormalized, .noise = true, .noise_floor = 0,
            .sampled = 2, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "moa 1";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::raw, noise<>, sampled<1>, init<fan_in_uniform>>, query_bias,
      soft_cap<5, 2>, rope<dynamic>, value_dim<3>, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .value_width = 3, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 4, .gating = gating_kind::raw, .noise = true, .sampled = 1,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "moa 2";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::detached, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, soft_cap<2>, key_bias, rope<>, padded, causal, value_bias,
      probability_dropout<1, 4>, output_dropout<1, 4>, learned_slope, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .key_bias = true, .value_bias = true, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope},
            {map_kind::place_and_head}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "moa 3";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, value_dim<3>, kv_heads<2>, geometric_alibi, rope<dynamic>, output_bias, query_bias, causal,
      context_dim<5>, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .value_width = 3, .rope_theta = 50, .maps = {{map_kind::geometric_alibi},
            {map_kind::place_and_head}}, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .sampled = 2,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "moa 4";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::raw, noise<>, sampled<1>>, sliding_window<3>, value_bias, key_bias,
      kv_heads<2>, padded, geometric_alibi, rope<>, probability_dropout<1, 4>, context_dim<5>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .key_bias = true, .value_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 10000, .maps = {{map_kind::geometric_alibi}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1,
            .gating = gating_kind::raw, .noise = true, .sampled = 1, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "moa 5";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, noise<number<0>>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, sliding_window<3>, query_bias, output_bias, value_dim<3>, soft_cap<2>, output_dropout<1, 4>,
      learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .output_bias = true,
            .value_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2,
            .gating = gating_kind::renormalized, .noise = true, .noise_floor = 0, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "moa 6";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, context_dim<5>, first_and_latest_keys,
      value_dim<3>, padded, rope<>, alibi, output_bias, output_dropout<1, 4>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .output_bias = true, .context_width = 5,
            .value_width = 3, .padded = true, .rope_theta = 10000, .maps = {{map_kind::alibi}, {map_kind::soft_cap,
            1.5}}, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6,
            .routed = 0, .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "moa 7";
  using layer = Moa<6, 4, TwoStage<0, 6, 2>, first_and_latest_keys, query_bias, probability_dropout<1, 4>,
      learned_gain, rope<dynamic>, kv_heads<2>, key_bias, value_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .key_bias = true,
            .value_bias = true, .kv_heads = 2, .rope_theta = 50, .maps = {{map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::moa_0
