// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 24 to 31 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_3 {

struct configuration_24 {
  static constexpr char const* name = "moa 24";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, key_bias, causal, output_bias, padded, probability_dropout<1, 4>,
      geometric_alibi, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .key_bias = true, .output_bias = true, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "moa 25";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, output_dropout<1, 4>, place_and_head, output_bias, rope<>, key_bias,
      context_dim<5>, sliding_window<3>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .key_bias = true, .output_bias = true,
            .context_width = 5, .rope_theta = 10000, .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .output_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "moa 26";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, key_bias, soft_cap<2>, first_and_latest_keys, probability_dropout<1, 4>,
      padded, value_bias, output_dropout<1, 4>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .key_bias = true, .value_bias = true,
            .padded = true, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "moa 27";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, learned_gain, probability_dropout<1, 4>, output_dropout<1, 4>,
      output_bias, key_bias, rope<>, neighbouring_keys>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .key_bias = true, .output_bias = true,
            .rope_theta = 10000, .maps = {{map_kind::learned_gain}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "moa 28";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::detached, init<fan_in_uniform>, loss::first_choice_balance,
      loss::head_balance>, query_bias, key_bias, padded, learned_gain, value_dim<3>, output_bias, output_dropout<1, 4>,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .key_bias = true, .output_bias = true, .value_width = 3,
            .padded = true, .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "moa 29";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, noise<number<0>>, sampled<2>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, value_bias, key_bias, query_bias,
      sliding_window<3>, geometric_alibi, rope<>, padded, context_dim<5>, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true, .value_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 10000, .maps = {{map_kind::geometric_alibi},
            {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 4, .noise = true, .noise_floor = 0, .sampled = 2, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "moa 30";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw, sampled<2>>, soft_cap<2>, value_bias, kv_heads<2>,
      context_dim<5>, padded, rope<dynamic>, first_and_latest_keys, learned_slope, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .value_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::learned_slope}, {map_kind::place_and_head}}, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::raw, .sampled = 2, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "moa 31";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::renormalized, noise<>, sampled<1>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, query_bias, rope<dynamic>, causal, probability_dropout<1, 4>, key_bias, geometric_alibi,
      kv_heads<2>, value_dim<3>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true, .kv_heads = 2,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 1, .gating = gating_kind::renormalized, .noise = true, .sampled = 1,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 31") { check<configuration_31>(); }

}  // namespace headmix::definition::moa_3
