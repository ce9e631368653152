// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 56 to 63 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_7 {

struct configuration_56 {
  static constexpr char const* name = "moh 56";
  using layer = Moh<6, 4, TwoStage<6, 0, 0>, soft_cap<2>, query_bias, neighbouring_keys, value_bias,
      probability_dropout<1, 4>, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 0, .shared = 6,
            .routed = 0, .losses = {}};
  }
};
TEST_CASE("definition: moh 56") { check<configuration_56>(); }

struct configuration_57 {
  static constexpr char const* name = "moh 57";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, loss::cv_squared>, rope<dynamic>, output_bias, qk_norm, kv_heads<2>, alibi,
      relative_position_bias<2, 3, 4, 3, 5>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .output_bias = true, .kv_heads = 2, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::place_and_head}},
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 57") { check<configuration_57>(); }

struct configuration_58 {
  static constexpr char const* name = "moh 58";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>, value_dim<3>,
      query_bias, padded, dense_projections, alibi, causal, value_bias, output_dropout<1, 4>, learned_gain,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .value_width = 3, .padded = true, .maps = {{map_kind::alibi}, {map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 58") { check<configuration_58>(); }

struct configuration_59 {
  static constexpr char const* name = "moh 59";
  using layer = Moh<6, 4, TwoStage<2, 4, 1, loss::load_balance, loss::z>, context_dim<5>, value_dim<3>,
      first_and_latest_keys, padded, alibi, relative_position_bias<2, 3, 4>, query_bias, output_bias, learned_gain,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .output_bias = true, .context_width = 5, .value_width = 3, .padded = true, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}},
            .router = router_kind::two_stage, .experts = 6, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 59") { check<configuration_59>(); }

struct configuration_60 {
  static constexpr char const* name = "moh 60";
  using layer = Moh<6, 4, TwoStage<1, 5, 2, loss::load_balance, loss::z>, learned_slope, probability_dropout<1, 4>,
      relative_position_bias<2, 3, 4, 3, 5>, output_dropout<1, 4>, kv_heads<2>, value_bias, neighbouring_keys,
      key_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5,
            .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 60") { check<configuration_60>(); }

struct configuration_61 {
  static constexpr char const* name = "moh 61";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, loss::head_balance_unscaled>, cosine_scores<6>, output_bias, rope<>,
      learned_slope, key_bias, output_dropout<1, 4>, padded, probability_dropout<1, 4>, kv_heads<2>, place_and_head,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .output_bias = true, .kv_heads = 2, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::cosine, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 61") { check<configuration_61>(); }

struct configuration_62 {
  static constexpr char const* name = "moh 62";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, estimator::active>, learned_slope, kv_heads<2>, dense_projections,
      value_dim<3>, rope<>, output_bias, value_bias, output_dropout<1, 4>, key_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .key_bias = true, .value_bias = true, .output_bias = true,
            .kv_heads = 2, .value_width = 3, .rope_theta = 10000, .maps = {{map_kind::learned_slope},
            {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .estimates_active = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 62") { check<configuration_62>(); }

struct configuration_63 {
  static constexpr char const* name = "moh 63";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, loss::load_balance, loss::first_choice_balance>, padded, qk_norm,
      probability_dropout<1, 4>, output_bias, alibi, relative_position_bias<2, 3, 4, 3, 5>, causal, query_bias,
      context_dim<5>, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .output_bias = true,
            .context_width = 5, .padded = true, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 63") { check<configuration_63>(); }

}  // namespace headmix::definition::moh_7
