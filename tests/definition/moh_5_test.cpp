// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 40 to 47 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_5 {

struct configuration_40 {
  static constexpr char const* name = "moh 40";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, sampled<1>, loss::z, loss::cv_squared>, value_dim<3>,
      probability_dropout<1, 4>, causal, key_bias, learned_slope, cosine_scores<6>, output_dropout<1, 4>, learned_gain,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_width = 3,
            .scores = scores_kind::cosine, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .sampled = 1, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 40") { check<configuration_40>(); }

struct configuration_41 {
  static constexpr char const* name = "moh 41";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::detached, noise<number<0>>, sampled<1>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, causal, context_dim<5>, relative_position_bias<2, 3, 4, 3, 5>,
      learned_slope, cosine_scores<6>, output_bias, dense_projections, value_dim<3>, padded, rope<>, output_dropout<1,
      4>, key_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .output_bias = true,
            .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5,
            .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25,
            .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .noise = true,
            .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 41") { check<configuration_41>(); }

struct configuration_42 {
  static constexpr char const* name = "moh 42";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::raw, noise<number<0>>, sampled<1>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, dense_projections, probability_dropout<1, 4>, output_dropout<1, 4>, geometric_alibi, key_bias,
      neighbouring_keys, query_bias, padded, context_dim<5>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .context_width = 5, .padded = true, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 42") { check<configuration_42>(); }

struct configuration_43 {
  static constexpr char const* name = "moh 43";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, noise<>, loss::z_with_padding, loss::head_balance_unscaled,
      loss::load_balance>, sliding_window<3>, value_bias, context_dim<5>, rope<dynamic>, output_bias, padded,
      output_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, key_bias, learned_slope, kv_heads<2>,
      place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .padded = true, .rope_theta = 50,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1,
            .gating = gating_kind::raw, .noise = true, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 43") { check<configuration_43>(); }

struct configuration_44 {
  static constexpr char const* name = "moh 44";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::load_balance, loss::z>, relative_position_bias<2, 3, 4, 3, 5>,
      kv_heads<2>, context_dim<5>, output_bias, learned_slope, value_bias, qk_norm, query_bias, output_dropout<1, 4>,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .value_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2,
            .routed = 4, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 44") { check<configuration_44>(); }

struct configuration_45 {
  static constexpr char const* name = "moh 45";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>, key_bias,
      cosine_scores<6>, query_bias, kv_heads<2>, context_dim<5>, dense_projections, padded, relative_position_bias<2,
      3, 4>, soft_cap<2>, value_bias, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .key_bias = true, .value_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 45") { check<configuration_45>(); }

struct configuration_46 {
  static constexpr char const* name = "moh 46";
  using layer = Moh<6, 4, TwoStage<6, 0, 0>, output_dropout<1, 4>, rope<dynamic>, value_dim<3>, value_bias,
      relative_position_bias<2, 3, 4, 3, 5>, dense_projections, kv_heads<2>, qk_norm>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .value_bias = true, .kv_heads = 2, .value_width = 3, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .output_dropout = 0.25, .dense_projections = true, .router = router_kind::two_stage,
            .experts = 6, .top_k = 0, .shared = 6, .routed = 0, .losses = {}};
  }
};
TEST_CASE("definition: moh 46") { check<configuration_46>(); }

struct configuration_47 {
  static constexpr char const* name = "moh 47";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::cv_squared>, context_dim<5>, dense_projections,
      value_bias, causal, learned_gain, padded, probability_dropout<1, 4>, rope<dynamic>, kv_heads<2>,
      relative_position_bias<2, 3, 4>, value_dim<3>, qk_norm, query_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1, .routed = 5,
            .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 47") { check<configuration_47>(); }

}  // namespace headmix::definition::moh_5
