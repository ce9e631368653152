// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 16 to 23 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_2 {

struct configuration_16 {
  static constexpr char const* name = "moa 16";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::renormalized, sampled<1>>, kv_heads<2>, output_bias, alibi, causal,
      query_bias, value_dim<3>, rope<>, value_bias, padded, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .value_width = 3, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}},
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2, .gating = gating_kind::renormalized,
            .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "moa 17";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::load_balance, loss::z>, output_bias, context_dim<5>,
      output_dropout<1, 4>, rope<>, value_dim<3>, padded, place_and_head, sliding_window<3>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .value_width = 3, .padded = true, .rope_theta = 10000, .maps = {{map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "moa 18";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::z, loss::cv_squared>, probability_dropout<1, 4>, learned_slope, output_dropout<1, 4>, kv_heads<2>,
      first_and_latest_keys, padded, rope<dynamic>, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .kv_heads = 2, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 4, .noise = true, .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "moa 19";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::detached, noise<>, loss::first_choice_balance, loss::head_balance>,
      kv_heads<2>, learned_slope, key_bias, output_bias, value_dim<3>, neighbouring_keys, probability_dropout<1, 4>,
      value_bias, context_dim<5>, padded, query_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3,
            .padded = true, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2, .noise = true,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "moa 20";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::load_balance, loss::z>, sliding_window<3>,
      value_bias, rope<dynamic>, output_bias, value_dim<3>, geometric_alibi, kv_heads<2>, probability_dropout<1, 4>,
      learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .value_bias = true, .output_bias = true, .kv_heads = 2,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 1, .routed = 5, .paper_scaling = true, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "moa 21";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::renormalized, sampled<2>, loss::z, loss::cv_squared>, rope<>,
      output_dropout<1, 4>, value_dim<3>, output_bias, neighbouring_keys, soft_cap<2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .output_bias = true, .value_width = 3,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}}, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::renormalized,
            .sampled = 2, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "moa 22";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, alibi, value_dim<3>, context_dim<5>, rope<dynamic>, query_bias,
      value_bias, kv_heads<2>, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .value_bias = true, .kv_heads = 2, .context_width = 5,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::alibi}}, .output_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "moa 23";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, scaling::paper>, key_bias, causal, output_bias, output_dropout<1, 4>,
      context_dim<5>, learned_slope, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .key_bias = true, .output_bias = true,
            .context_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap,
            1.5}}, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2,
            .routed = 4, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 23") { check<configuration_23>(); }

}  // namespace headmix::definition::moa_2
