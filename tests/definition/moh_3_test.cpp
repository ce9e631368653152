// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 24 to 31 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_3 {

struct configuration_24 {
  static constexpr char const* name = "moh 24";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, init<fan_in_uniform>, loss::first_choice_balance,
      loss::head_balance>, soft_cap<2>, context_dim<5>, probability_dropout<1, 4>, relative_position_bias<2, 3, 4, 3,
      5>, cosine_scores<6>, value_bias, first_and_latest_keys, rope<>, dense_projections, output_bias, alibi,
      learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .value_bias = true,
            .output_bias = true, .context_width = 5, .rope_theta = 10000, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::soft_cap,
            2}, {map_kind::alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .gating = gating_kind::raw,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "moh 25";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, rope<>, value_bias, probability_dropout<1, 4>, kv_heads<2>, alibi,
      relative_position_bias<2, 3, 4>, cosine_scores<6>, context_dim<5>, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .value_bias = true, .kv_heads = 2, .context_width = 5,
            .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "moh 26";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active>, padded, geometric_alibi, context_dim<5>, query_bias,
      rope<dynamic>, output_bias, value_dim<3>, dense_projections, qk_norm, kv_heads<2>, relative_position_bias<2, 3,
      4, 3, 5>, causal, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .estimates_active = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "moh 27";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, value_dim<3>, padded, rope<dynamic>, query_bias, causal,
      output_dropout<1, 4>, key_bias, soft_cap<2>, output_bias, dense_projections, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .key_bias = true,
            .output_bias = true, .value_width = 3, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::place_and_head}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "moh 28";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, value_dim<3>, qk_norm, learned_slope, sliding_window<3>,
      relative_position_bias<2, 3, 4, 3, 5>, padded, probability_dropout<1, 4>, query_bias, value_bias,
      dense_projections, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .value_bias = true,
            .value_width = 3, .padded = true, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .dense_projections = true, .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "moh 29";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, dense_projections, kv_heads<2>, first_and_latest_keys, rope<>, padded,
      relative_position_bias<2, 3, 4, 3, 5>, geometric_alibi, output_bias, value_dim<3>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .output_bias = true, .kv_heads = 2,
            .value_width = 3, .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 2.5}},
            .dense_projections = true, .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "moh 30";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, neighbouring_keys, padded, probability_dropout<1, 4>, dense_projections,
      rope<dynamic>, qk_norm, relative_position_bias<2, 3, 4, 3, 5>, kv_heads<2>, output_bias, key_bias,
      value_dim<3>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .output_bias = true,
            .kv_heads = 2, .value_width = 3, .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "moh 31";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, query_bias, output_bias, context_dim<5>, output_dropout<1, 4>, kv_heads<2>, qk_norm,
      geometric_alibi, rope<dynamic>, value_bias, dense_projections, value_dim<3>, key_bias, place_and_head,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .gating = gating_kind::renormalized,
            .noise = true, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 31") { check<configuration_31>(); }

}  // namespace headmix::definition::moh_3
