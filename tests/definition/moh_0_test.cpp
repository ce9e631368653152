// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 0 to 7 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_0 {

struct configuration_0 {
  static constexpr char const* name = "moh 0";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, noise<number<0>>, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, dense_projections, rope<dynamic>, qk_norm, kv_heads<2>,
      output_bias, geometric_alibi, key_bias>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .output_bias = true, .kv_heads = 2, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::geometric_alibi}}, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "moh 1";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, sampled<1>, loss::first_choice_balance,
      loss::head_balance>, output_dropout<1, 4>, value_bias, cosine_scores<6>, context_dim<5>, place_and_head, padded,
      relative_position_bias<2, 3, 4, 3, 5>, query_bias, probability_dropout<1, 4>, value_dim<3>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .value_bias = true, .context_width = 5,
            .value_width = 3, .padded = true, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6,
            .top_k = 2, .sampled = 1, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "moh 2";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<>, sampled<2>, loss::z, loss::cv_squared>,
      probability_dropout<1, 4>, value_dim<3>, relative_position_bias<2, 3, 4>, kv_heads<2>, soft_cap<2>, rope<>,
      causal, context_dim<5>, key_bias, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .kv_heads = 2,
            .context_width = 5, .value_width = 3, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4,
            .gating = gating_kind::renormalized, .noise = true, .sampled = 2, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "moh 3";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::raw, noise<>, init<fan_in_uniform>>, query_bias, dense_projections,
      value_bias, output_dropout<1, 4>, relative_position_bias<2, 3, 4>, rope<>, padded, causal, alibi, output_bias,
      place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .output_bias = true, .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25,
            .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4,
            .gating = gating_kind::raw, .noise = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "moh 4";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2>, output_bias, sliding_window<3>, relative_position_bias<2, 3, 4, 3, 5>,
      output_dropout<1, 4>, dense_projections, soft_cap<2>, cosine_scores<6>, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .output_bias = true,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "moh 5";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      context_dim<5>, query_bias, alibi, rope<dynamic>, probability_dropout<1, 4>, padded, value_dim<3>, kv_heads<2>,
      qk_norm, sliding_window<3>, value_bias>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::alibi}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .paper_scaling = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "moh 6";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, sampled<2>>, qk_norm, first_and_latest_keys,
      dense_projections, output_bias, rope<dynamic>, key_bias, learned_slope, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .output_bias = true, .rope_theta = 50, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .sampled = 2,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "moh 7";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::renormalized, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, cosine_scores<6>, geometric_alibi,
      context_dim<5>, first_and_latest_keys, padded, key_bias, output_dropout<1, 4>, value_dim<3>, query_bias,
      probability_dropout<1, 4>, kv_heads<2>, value_bias, dense_projections, relative_position_bias<2, 3, 4, 3, 5>,
      learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .value_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap,
            2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::moh_0
