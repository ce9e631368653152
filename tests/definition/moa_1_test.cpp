// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 8 to 15 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_1 {

struct configuration_8 {
  static constexpr char const* name = "moa 8";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::load_balance, loss::z>, context_dim<5>,
      neighbouring_keys, place_and_head, key_bias, output_dropout<1, 4>, padded, kv_heads<2>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .key_bias = true, .kv_heads = 2, .context_width = 5,
            .padded = true, .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1, .routed = 5,
            .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "moa 9";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::raw, noise<>, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, context_dim<5>, neighbouring_keys, kv_heads<2>, rope<dynamic>,
      output_bias, value_dim<3>, query_bias, alibi, probability_dropout<1, 4>, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .rope_theta = 50, .maps = {{map_kind::alibi},
            {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::raw, .noise = true,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "moa 10";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>, output_dropout<1,
      4>, value_bias, neighbouring_keys, rope<>, geometric_alibi, value_dim<3>, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .value_bias = true, .value_width = 3,
            .rope_theta = 10000, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2,
            .routed = 4, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "moa 11";
  using layer = Moa<6, 4, TwoStage<1, 5, 2>, probability_dropout<1, 4>, padded, soft_cap<2>, output_bias, rope<>,
      value_dim<3>, query_bias, context_dim<5>, learned_slope>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .output_bias = true, .context_width = 5, .value_width = 3,
            .padded = true, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "moa 12";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, sampled<1>, loss::first_choice_balance,
      loss::head_balance>, key_bias, output_dropout<1, 4>, soft_cap<dynamic>, causal, value_bias,
      probability_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .key_bias = true, .value_bias = true,
            .maps = {{map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .sampled = 1, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "moa 13";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      padded, sliding_window<3>, probability_dropout<1, 4>, key_bias, output_bias, soft_cap<2>, value_dim<3>,
      kv_heads<2>, query_bias, rope<dynamic>, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .value_width = 3, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2,
            .routed = 4, .paper_scaling = true, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "moa 14";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, noise<>, sampled<2>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, first_and_latest_keys, soft_cap<2>, padded, output_dropout<1,
      4>, geometric_alibi>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .padded = true, .maps = {{map_kind::soft_cap,
            2}, {map_kind::geometric_alibi}}, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 2, .gating = gating_kind::renormalized, .noise = true, .sampled = 2,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "moa 15";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, query_bias, key_bias, kv_heads<2>,
      probability_dropout<1, 4>, value_bias, geometric_alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .key_bias = true, .value_bias = true, .kv_heads = 2,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6, .routed = 0,
            .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 15") { check<configuration_15>(); }

}  // namespace headmix::definition::moa_1
