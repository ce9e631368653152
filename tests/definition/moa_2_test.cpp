// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 16 to 23 of 54.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_2 {

struct configuration_16 {
  static constexpr char const* name = "moa 16";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, scaling::paper, loss::load_balance, loss::z>, kv_heads<2>, padded,
      context_dim<5>, probability_dropout<1, 4>, geometric_alibi, output_dropout<1, 4>, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .kv_heads = 2, .context_width = 5, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 1, .shared = 2, .routed = 4, .paper_scaling = true, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "moa 17";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, kv_heads<2>, output_dropout<1, 4>,
      sliding_window<3>, rope<dynamic>, padded, alibi, key_bias, query_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true, .kv_heads = 2,
            .padded = true, .rope_theta = 50, .maps = {{map_kind::alibi}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6,
            .routed = 0, .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "moa 18";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::renormalized, noise<>, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, first_and_latest_keys, rope<dynamic>, query_bias,
      context_dim<5>, value_bias, soft_cap<2>, output_dropout<1, 4>, padded, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .value_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::geometric_alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::renormalized,
            .noise = true, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "moa 19";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, sampled<2>, init<fan_in_uniform>>, rope<>,
      learned_slope, probability_dropout<1, 4>, neighbouring_keys, output_bias, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .output_bias = true, .rope_theta = 10000,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4,
            .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .sampled = 2,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "moa 20";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::detached, sampled<1>, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, alibi, context_dim<5>, probability_dropout<1, 4>, kv_heads<2>,
      rope<>, output_bias, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .output_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 10000,
            .maps = {{map_kind::alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .sampled = 1,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "moa 21";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, geometric_alibi, neighbouring_keys, padded, output_bias,
      output_dropout<1, 4>, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .output_bias = true, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "moa 22";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, learned_slope, key_bias, kv_heads<2>, probability_dropout<1, 4>,
      value_bias, rope<dynamic>, query_bias, causal, context_dim<5>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "moa 23";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::raw, noise<number<0>>, sampled<1>, loss::z, loss::cv_squared>,
      kv_heads<2>, output_dropout<1, 4>, key_bias, value_bias, probability_dropout<1, 4>, query_bias,
      soft_cap<dynamic>, context_dim<5>, sliding_window<3>, rope<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .rope_theta = 50, .maps = {{map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 1, .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .sampled = 1,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 23") { check<configuration_23>(); }

}  // namespace headmix::definition::moa_2
