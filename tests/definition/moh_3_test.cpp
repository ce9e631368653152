// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 24 to 31 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_3 {

struct configuration_24 {
  static constexpr char const* name = "moh 24";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, loss::z_with_padding, loss::head_balance_unscaled,
      loss::load_balance>, cosine_scores<6>, soft_cap<2>, context_dim<5>, key_bias, relative_position_bias<2, 3, 4>,
      rope<dynamic>, output_bias, first_and_latest_keys, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .output_bias = true, .context_width = 5, .rope_theta = 50, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope},
            {map_kind::learned_gain}}, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1,
            .gating = gating_kind::raw, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "moh 25";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, noise<>, sampled<2>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, relative_position_bias<2, 3, 4, 3, 5>,
      output_bias, neighbouring_keys, context_dim<5>, kv_heads<2>, alibi, output_dropout<1, 4>, qk_norm, query_bias,
      dense_projections, key_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .noise = true, .sampled = 2,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "moh 26";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, probability_dropout<1, 4>, geometric_alibi,
      context_dim<5>, rope<dynamic>, key_bias, query_bias, value_bias, padded, cosine_scores<6>, output_bias,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .key_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .rope_theta = 50, .scores = scores_kind::cosine,
            .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1, .routed = 5,
            .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "moh 27";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<>, sampled<1>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, query_bias, context_dim<5>, causal, qk_norm, value_bias, soft_cap<2>, output_bias,
      relative_position_bias<2, 3, 4, 3, 5>, output_dropout<1, 4>, alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .scores = scores_kind::layer_norm, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::soft_cap, 2},
            {map_kind::alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 6, .top_k = 4, .gating = gating_kind::renormalized, .noise = true, .sampled = 1,
            .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "moh 28";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, cosine_scores<6>, relative_position_bias<2, 3, 4>, rope<>,
      context_dim<5>, kv_heads<2>, output_dropout<1, 4>, dense_projections, learned_slope, learned_gain,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .kv_heads = 2, .context_width = 5, .rope_theta = 10000,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_slope},
            {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "moh 29";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, value_bias, rope<dynamic>, geometric_alibi, causal,
      probability_dropout<1, 4>, output_bias, padded, query_bias, key_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "moh 30";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, relative_position_bias<2, 3, 4, 3, 5>, key_bias, sliding_window<3>,
      context_dim<5>, kv_heads<2>, qk_norm, alibi, query_bias, output_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi},
            {map_kind::place_and_head}}, .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "moh 31";
  using layer = Moh<6, 4, LossFreeTopK<6, 2>, padded, output_dropout<1, 4>, qk_norm, soft_cap<2>, key_bias,
      first_and_latest_keys, value_bias, relative_position_bias<2, 3, 4>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .value_bias = true, .padded = true, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}}, .output_dropout = 0.25,
            .router = router_kind::loss_free, .experts = 6};
  }
};
TEST_CASE("definition: moh 31") { check<configuration_31>(); }

}  // namespace headmix::definition::moh_3
