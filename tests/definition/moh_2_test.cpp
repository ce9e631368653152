// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 16 to 23 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_2 {

struct configuration_16 {
  static constexpr char const* name = "moh 16";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, relative_position_bias<2, 3, 4, 3, 5>,
      probability_dropout<1, 4>, alibi, causal, rope<>, dense_projections, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .rope_theta = 10000, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "moh 17";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::renormalized, noise<number<0>>, loss::first_choice_balance,
      loss::head_balance>, sliding_window<3>, qk_norm, relative_position_bias<2, 3, 4, 3, 5>, value_bias, key_bias,
      kv_heads<2>, query_bias, probability_dropout<1, 4>, output_dropout<1, 4>, dense_projections, padded, output_bias,
      learned_slope, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .kv_heads = 2, .padded = true, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5,
            .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "moh 18";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, sampled<2>, init<fan_in_uniform>>, key_bias,
      first_and_latest_keys, value_bias, probability_dropout<1, 4>, kv_heads<2>, rope<>, learned_gain,
      relative_position_bias<2, 3, 4>, output_dropout<1, 4>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .value_bias = true, .kv_heads = 2, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4,
            .gating = gating_kind::renormalized, .sampled = 2, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "moh 19";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::load_balance, loss::z>, key_bias,
      relative_position_bias<2, 3, 4, 3, 5>, neighbouring_keys, query_bias, output_dropout<1, 4>, value_bias, rope<>,
      geometric_alibi, dense_projections, probability_dropout<1, 4>, kv_heads<2>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .kv_heads = 2, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1, .routed = 5,
            .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "moh 20";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, scaling::paper>, cosine_scores<6>, query_bias, probability_dropout<1, 4>,
      alibi, context_dim<5>, causal, kv_heads<2>, relative_position_bias<2, 3, 4>, dense_projections, output_bias,
      learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "moh 21";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, estimator::active, loss::load_balance, loss::first_choice_balance>,
      geometric_alibi, probability_dropout<1, 4>, value_bias, key_bias, sliding_window<3>, query_bias,
      cosine_scores<6>, output_bias, padded, relative_position_bias<2, 3, 4>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .padded = true, .scores = scores_kind::cosine, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .estimates_active = true, .losses = {loss_kind::load_balance,
            loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "moh 22";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>, key_bias, rope<>,
      alibi, value_bias, padded, output_dropout<1, 4>, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .value_bias = true, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "moh 23";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, loss::cv_squared>, padded, rope<dynamic>, first_and_latest_keys,
      value_bias, output_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, context_dim<5>, output_bias, qk_norm>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 0,
            .shared = 6, .routed = 0, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 23") { check<configuration_23>(); }

}  // namespace headmix::definition::moh_2
