// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 24 to 31 of 54.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_3 {

struct configuration_24 {
  static constexpr char const* name = "moa 24";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, loss::cv_squared>, output_bias, output_dropout<1, 4>,
      probability_dropout<1, 4>, first_and_latest_keys, context_dim<5>, learned_slope, place_and_head, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .output_bias = true, .context_width = 5,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 1, .routed = 5, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "moa 25";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, rope<>, place_and_head, output_dropout<1, 4>, kv_heads<2>,
      probability_dropout<1, 4>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .kv_heads = 2, .rope_theta = 10000, .maps = {{map_kind::place_and_head},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "moa 26";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, soft_cap<2>, probability_dropout<1, 4>, padded, context_dim<5>,
      sliding_window<3>, alibi>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .context_width = 5, .padded = true,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}}, .probability_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "moa 27";
  using layer = Moa<6, 4, LossFreeTopK<5, 2>, key_bias, first_and_latest_keys, output_bias, rope<dynamic>,
      output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .key_bias = true, .output_bias = true,
            .rope_theta = 50, .output_dropout = 0.25, .router = router_kind::loss_free, .experts = 5};
  }
};
TEST_CASE("definition: moa 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "moa 28";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw, noise<>, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, context_dim<5>, kv_heads<2>, probability_dropout<1, 4>, rope<dynamic>, key_bias, alibi,
      output_dropout<1, 4>, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .key_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 50,
            .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::raw, .noise = true, .sampled = 2,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "moa 29";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::renormalized, sampled<2>>, probability_dropout<1, 4>,
      sliding_window<3>, padded, soft_cap<2>, output_bias, value_bias, kv_heads<2>, rope<>, learned_slope,
      learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .value_bias = true, .output_bias = true, .kv_heads = 2,
            .padded = true, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope},
            {map_kind::learned_gain}}, .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 4, .gating = gating_kind::renormalized, .sampled = 2, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "moa 30";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::raw, noise<>, sampled<1>, init<fan_in_uniform>>, soft_cap<5, 2>,
      probability_dropout<1, 4>, output_dropout<1, 4>, output_bias, query_bias, rope<dynamic>, first_and_latest_keys>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .output_bias = true,
            .rope_theta = 50, .maps = {{map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::raw, .noise = true,
            .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "moa 31";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::detached, noise<>, sampled<1>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, neighbouring_keys, output_bias, padded, context_dim<5>,
      kv_heads<2>, probability_dropout<1, 4>, soft_cap<2>, rope<dynamic>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::learned_slope}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .noise = true, .sampled = 1,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 31") { check<configuration_31>(); }

}  // namespace headmix::definition::moa_3
