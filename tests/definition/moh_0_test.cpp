// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 0 to 7 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_0 {

struct configuration_0 {
  static constexpr char const* name = "moh 0";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, noise<number<0>>, loss::z, loss::cv_squared>,
      relative_position_bias<2, 3, 4>, rope<dynamic>, output_dropout<1, 4>, learned_slope, context_dim<5>, kv_heads<2>,
      value_bias, dense_projections, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .value_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 50,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .noise = true, .noise_floor = 0,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "moh 1";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::raw, sampled<1>, init<fan_in_uniform>>, qk_norm, key_bias,
      probability_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, alibi, padded, query_bias, output_bias,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .key_bias = true, .output_bias = true,
            .padded = true, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4,
            .gating = gating_kind::raw, .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "moh 2";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::renormalized, noise<>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, key_bias, probability_dropout<1, 4>, place_and_head,
      kv_heads<2>, cosine_scores<6>, rope<>, causal>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .kv_heads = 2,
            .rope_theta = 10000, .scores = scores_kind::cosine, .maps = {{map_kind::place_and_head}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1,
            .gating = gating_kind::renormalized, .noise = true, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "moh 3";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::renormalized, sampled<2>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, rope<dynamic>, value_bias, cosine_scores<6>, padded,
      dense_projections, causal, query_bias, context_dim<5>, soft_cap<2>, output_bias, output_dropout<1, 4>,
      geometric_alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .rope_theta = 50, .scores = scores_kind::cosine,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6,
            .top_k = 2, .gating = gating_kind::renormalized, .sampled = 2, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "moh 4";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, noise<>, sampled<1>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, context_dim<5>, dense_projections,
      padded, value_bias, sliding_window<3>, rope<>, output_bias, relative_position_bias<2, 3, 4, 3, 5>,
      output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .value_bias = true, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .gating = gating_kind::raw, .noise = true,
            .sampled = 1, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "moh 5";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, probability_dropout<1, 4>, query_bias,
      soft_cap<2>, key_bias, sliding_window<3>, dense_projections, relative_position_bias<2, 3, 4>, kv_heads<2>,
      geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .kv_heads = 2, .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2},
            {map_kind::geometric_alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6,
            .routed = 0, .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "moh 6";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, loss::load_balance, loss::first_choice_balance>, qk_norm,
      first_and_latest_keys, dense_projections, context_dim<5>, output_dropout<1, 4>, kv_heads<2>, alibi,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .kv_heads = 2, .context_width = 5,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::query_norm, .experts = 6,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::load_balance,
            loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "moh 7";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active>, relative_position_bias<2, 3, 4, 3, 5>, learned_slope,
      padded, first_and_latest_keys, probability_dropout<1, 4>, key_bias, cosine_scores<6>, rope<dynamic>, query_bias,
      output_bias, value_bias, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .value_bias = true, .output_bias = true, .padded = true, .rope_theta = 50,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}, {map_kind::soft_cap,
            2.5}}, .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 1,
            .shared = 3, .routed = 3, .estimates_active = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::moh_0
