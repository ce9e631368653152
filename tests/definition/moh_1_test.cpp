// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 8 to 15 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_1 {

struct configuration_8 {
  static constexpr char const* name = "moh 8";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, loss::cv_squared>, relative_position_bias<2, 3, 4, 3, 5>,
      neighbouring_keys, alibi, value_dim<3>, key_bias, cosine_scores<6>, output_bias, probability_dropout<1, 4>,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .output_bias = true,
            .value_width = 3, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1, .routed = 5,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "moh 9";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, estimator::active, loss::head_balance_unscaled>, rope<dynamic>,
      soft_cap<2>, padded, kv_heads<2>, output_dropout<1, 4>, query_bias, qk_norm, context_dim<5>, neighbouring_keys,
      learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .estimates_active = true, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "moh 10";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active, loss::load_balance, loss::first_choice_balance>,
      soft_cap<dynamic>, probability_dropout<1, 4>, kv_heads<2>, rope<>, key_bias, sliding_window<3>, value_bias,
      relative_position_bias<2, 3, 4>, output_bias, dense_projections, value_dim<3>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .value_width = 3, .rope_theta = 10000, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .estimates_active = true, .losses = {loss_kind::load_balance,
            loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "moh 11";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::cv_squared>, relative_position_bias<2, 3, 4>, context_dim<5>,
      kv_heads<2>, geometric_alibi, rope<>, first_and_latest_keys, query_bias, value_bias, output_bias,
      output_dropout<1, 4>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 10000,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2,
            .routed = 4, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "moh 12";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::renormalized, noise<number<0>>, sampled<2>, init<fan_in_uniform>,
      loss::z, loss::cv_squared>, neighbouring_keys, query_bias, output_bias, dense_projections,
      relative_position_bias<2, 3, 4, 3, 5>, padded, value_bias, output_dropout<1, 4>, rope<>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .output_bias = true, .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .sampled = 2, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "moh 13";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper>, soft_cap<2>, output_dropout<1, 4>, padded, rope<>,
      dense_projections, value_bias, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .value_bias = true, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::two_stage, .experts = 6,
            .top_k = 2, .shared = 1, .routed = 5, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "moh 14";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::raw, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, value_dim<3>, learned_slope, relative_position_bias<2, 3, 4, 3,
      5>, output_bias, key_bias, qk_norm, causal, kv_heads<2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .output_bias = true,
            .kv_heads = 2, .value_width = 3, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}},
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .sampled = 1, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "moh 15";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::load_balance, loss::z>, key_bias, probability_dropout<1, 4>,
      learned_gain, causal, value_dim<3>, rope<dynamic>, dense_projections, cosine_scores<6>, padded, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_width = 3,
            .padded = true, .rope_theta = 50, .scores = scores_kind::cosine, .maps = {{map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 15") { check<configuration_15>(); }

}  // namespace headmix::definition::moh_1
