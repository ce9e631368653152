// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 8 to 15 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_1 {

struct configuration_8 {
  static constexpr char const* name = "moh 8";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::detached, noise<number<0>>, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, neighbouring_keys, soft_cap<2>, rope<>, cosine_scores<6>, probability_dropout<1, 4>,
      relative_position_bias<2, 3, 4>, alibi>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .rope_theta = 10000,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2},
            {map_kind::alibi}}, .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6,
            .top_k = 4, .noise = true, .noise_floor = 0, .sampled = 2, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "moh 9";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, output_bias, learned_gain,
      relative_position_bias<2, 3, 4>, kv_heads<2>, qk_norm, context_dim<5>, value_bias, neighbouring_keys, key_bias,
      query_bias, output_dropout<1, 4>, padded>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .padded = true,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "moh 10";
  using layer = Moh<6, 4, TwoStage<0, 6, 2>, output_dropout<1, 4>, rope<>, geometric_alibi, key_bias, qk_norm,
      value_bias, relative_position_bias<2, 3, 4, 3, 5>, padded, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .value_bias = true, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "moh 11";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>,
      probability_dropout<1, 4>, kv_heads<2>, context_dim<5>, dense_projections, cosine_scores<6>, learned_slope,
      output_bias, query_bias, relative_position_bias<2, 3, 4, 3, 5>, causal, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .dense_projections = true, .router = router_kind::two_stage, .experts = 6,
            .top_k = 1, .shared = 2, .routed = 4, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "moh 12";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::load_balance, loss::z>, sliding_window<3>,
      rope<dynamic>, alibi, qk_norm, padded, context_dim<5>, output_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "moh 13";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, noise<>, sampled<1>, loss::z, loss::cv_squared>,
      output_bias, geometric_alibi, query_bias, key_bias, qk_norm, padded, first_and_latest_keys, rope<>,
      probability_dropout<1, 4>, relative_position_bias<2, 3, 4>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .output_bias = true, .padded = true, .rope_theta = 10000,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .noise = true,
            .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "moh 14";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::raw, noise<number<0>>, sampled<1>, init<fan_in_uniform>>,
      context_dim<5>, learned_slope, kv_heads<2>, value_bias, query_bias, output_dropout<1, 4>, rope<dynamic>,
      neighbouring_keys, dense_projections, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "moh 15";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active>, dense_projections, qk_norm, kv_heads<2>, rope<>,
      output_dropout<1, 4>, context_dim<5>, soft_cap<2>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .kv_heads = 2, .context_width = 5, .rope_theta = 10000,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::query_norm, .experts = 6,
            .top_k = 1, .shared = 3, .routed = 3, .estimates_active = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 15") { check<configuration_15>(); }

}  // namespace headmix::definition::moh_1
