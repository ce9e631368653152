// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 48 to 55 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_6 {

struct configuration_48 {
  static constexpr char const* name = "moh 48";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::load_balance, loss::z>, learned_slope, rope<>,
      causal, relative_position_bias<2, 3, 4>, value_dim<3>, context_dim<5>, probability_dropout<1, 4>, padded,
      value_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .value_bias = true, .context_width = 5,
            .value_width = 3, .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 48") { check<configuration_48>(); }

struct configuration_49 {
  static constexpr char const* name = "moh 49";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, loss::load_balance, loss::z>, soft_cap<2>, value_dim<3>, rope<dynamic>,
      cosine_scores<6>, sliding_window<3>, dense_projections, key_bias, value_bias, padded, query_bias,
      geometric_alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .value_width = 3, .padded = true, .rope_theta = 50, .scores = scores_kind::cosine,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .dense_projections = true, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 49") { check<configuration_49>(); }

struct configuration_50 {
  static constexpr char const* name = "moh 50";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, scaling::paper>, soft_cap<2>, kv_heads<2>, output_dropout<1, 4>,
      output_bias, rope<dynamic>, relative_position_bias<2, 3, 4, 3, 5>, sliding_window<3>, context_dim<5>, alibi,
      place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .rope_theta = 50, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2,
            .routed = 4, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 50") { check<configuration_50>(); }

struct configuration_51 {
  static constexpr char const* name = "moh 51";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, loss::cv_squared>, kv_heads<2>, dense_projections, context_dim<5>,
      key_bias, value_dim<3>, soft_cap<2>, query_bias, padded, probability_dropout<1, 4>, sliding_window<3>, rope<>,
      output_dropout<1, 4>, learned_slope, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6, .routed = 0,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 51") { check<configuration_51>(); }

struct configuration_52 {
  static constexpr char const* name = "moh 52";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      first_and_latest_keys, output_dropout<1, 4>, rope<dynamic>, padded, learned_slope, key_bias, kv_heads<2>,
      context_dim<5>, dense_projections, relative_position_bias<2, 3, 4, 3, 5>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::two_stage, .experts = 6,
            .top_k = 2, .shared = 1, .routed = 5, .paper_scaling = true, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 52") { check<configuration_52>(); }

struct configuration_53 {
  static constexpr char const* name = "moh 53";
  using layer = Moh<6, 4, TwoStage<6, 0, 0>, query_bias, first_and_latest_keys, alibi, padded, key_bias, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .padded = true, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}},
            .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6, .routed = 0, .losses = {}};
  }
};
TEST_CASE("definition: moh 53") { check<configuration_53>(); }

struct configuration_54 {
  static constexpr char const* name = "moh 54";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      relative_position_bias<2, 3, 4>, context_dim<5>, neighbouring_keys, learned_slope, rope<dynamic>, value_dim<3>,
      key_bias, value_bias, query_bias, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .context_width = 5, .value_width = 3, .rope_theta = 50, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap,
            1.5}}, .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2, .routed = 4,
            .paper_scaling = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 54") { check<configuration_54>(); }

struct configuration_55 {
  static constexpr char const* name = "moh 55";
  using layer = Moh<6, 4, TwoStage<0, 6, 2>, query_bias, context_dim<5>, key_bias, padded, learned_slope, output_bias,
      output_dropout<1, 4>, neighbouring_keys, cosine_scores<6>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .scores = scores_kind::cosine,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 55") { check<configuration_55>(); }

}  // namespace headmix::definition::moh_6
