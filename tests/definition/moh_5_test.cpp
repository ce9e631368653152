// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 40 to 47 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_5 {

struct configuration_40 {
  static constexpr char const* name = "moh 40";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::raw, noise<>, init<fan_in_uniform>, loss::z, loss::cv_squared>,
      qk_norm, padded, value_bias, learned_slope, sliding_window<3>, relative_position_bias<2, 3, 4, 3, 5>,
      kv_heads<2>, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .value_bias = true, .kv_heads = 2,
            .padded = true, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2,
            .gating = gating_kind::raw, .noise = true, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 40") { check<configuration_40>(); }

struct configuration_41 {
  static constexpr char const* name = "moh 41";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, value_bias, relative_position_bias<2, 3, 4>, padded, key_bias,
      context_dim<5>, kv_heads<2>, output_dropout<1, 4>, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .value_bias = true, .kv_heads = 2, .context_width = 5,
            .padded = true, .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4,
            .gating = gating_kind::renormalized, .noise = true, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 41") { check<configuration_41>(); }

struct configuration_42 {
  static constexpr char const* name = "moh 42";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, loss::load_balance, loss::z>, soft_cap<2>, kv_heads<2>, cosine_scores<6>,
      padded, relative_position_bias<2, 3, 4>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .kv_heads = 2, .padded = true, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope},
            {map_kind::learned_gain}}, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 42") { check<configuration_42>(); }

struct configuration_43 {
  static constexpr char const* name = "moh 43";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, rope<>, output_dropout<1, 4>,
      query_bias, padded, learned_slope, dense_projections, cosine_scores<6>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .padded = true, .rope_theta = 10000,
            .scores = scores_kind::cosine, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6, .routed = 0,
            .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 43") { check<configuration_43>(); }

struct configuration_44 {
  static constexpr char const* name = "moh 44";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper>, causal, context_dim<5>, padded, dense_projections,
      value_bias, kv_heads<2>, rope<dynamic>, probability_dropout<1, 4>, key_bias>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .padded = true, .rope_theta = 50, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 44") { check<configuration_44>(); }

struct configuration_45 {
  static constexpr char const* name = "moh 45";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, causal, alibi, dense_projections,
      kv_heads<2>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .kv_heads = 2, .maps = {{map_kind::alibi},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6, .routed = 0,
            .paper_scaling = true, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 45") { check<configuration_45>(); }

struct configuration_46 {
  static constexpr char const* name = "moh 46";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      dense_projections, qk_norm, relative_position_bias<2, 3, 4>, soft_cap<2>, padded, sliding_window<3>, query_bias,
      output_dropout<1, 4>, rope<dynamic>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .padded = true,
            .rope_theta = 50, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}}, .output_dropout = 0.25,
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2,
            .routed = 4, .paper_scaling = true, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 46") { check<configuration_46>(); }

struct configuration_47 {
  static constexpr char const* name = "moh 47";
  using layer = Moh<6, 4, TwoStage<0, 6, 2>, value_bias, context_dim<5>, rope<dynamic>, soft_cap<2>, output_dropout<1,
      4>, sliding_window<3>, kv_heads<2>, learned_slope>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .value_bias = true, .kv_heads = 2,
            .context_width = 5, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 47") { check<configuration_47>(); }

}  // namespace headmix::definition::moh_5
