// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 64 to 68 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_8 {

struct configuration_64 {
  static constexpr char const* name = "moh 64";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::detached, noise<>, init<fan_in_uniform>>, relative_position_bias<2,
      3, 4, 3, 5>, dense_projections, learned_slope, context_dim<5>, query_bias, kv_heads<2>, output_bias,
      sliding_window<3>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::learned_slope}}, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .noise = true,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 64") { check<configuration_64>(); }

struct configuration_65 {
  static constexpr char const* name = "moh 65";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, loss::cv_squared>, sliding_window<3>, probability_dropout<1, 4>,
      dense_projections, alibi, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .maps = {{map_kind::alibi},
            {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 65") { check<configuration_65>(); }

struct configuration_66 {
  static constexpr char const* name = "moh 66";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, loss::cv_squared>, probability_dropout<1, 4>, kv_heads<2>, output_bias,
      soft_cap<2>, rope<>, cosine_scores<6>, query_bias, context_dim<5>, padded, key_bias, first_and_latest_keys,
      alibi>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::cosine, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 66") { check<configuration_66>(); }

struct configuration_67 {
  static constexpr char const* name = "moh 67";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, estimator::active, loss::head_balance_unscaled>, output_bias, value_bias,
      context_dim<5>, key_bias, causal, dense_projections, soft_cap<2>, relative_position_bias<2, 3, 4>, learned_slope,
      learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap,
            2}, {map_kind::learned_slope}, {map_kind::learned_gain}}, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .estimates_active = true, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 67") { check<configuration_67>(); }

struct configuration_68 {
  static constexpr char const* name = "moh 68";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3>, alibi, qk_norm, output_bias, output_dropout<1, 4>, neighbouring_keys,
      rope<>, value_bias, key_bias, padded, relative_position_bias<2, 3, 4, 3, 5>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .value_bias = true,
            .output_bias = true, .padded = true, .rope_theta = 10000, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6,
            .top_k = 3, .shared = 1, .routed = 5, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 68") { check<configuration_68>(); }

}  // namespace headmix::definition::moh_8
