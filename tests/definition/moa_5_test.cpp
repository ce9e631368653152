// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 40 to 47 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_5 {

struct configuration_40 {
  static constexpr char const* name = "moa 40";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::load_balance, loss::z>, kv_heads<2>, alibi, causal,
      context_dim<5>, key_bias, value_bias, query_bias, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .maps = {{map_kind::alibi}, {map_kind::learned_gain}},
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0, .routed = 6,
            .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 40") { check<configuration_40>(); }

struct configuration_41 {
  static constexpr char const* name = "moa 41";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, loss::cv_squared>, soft_cap<2>, value_dim<3>, output_bias,
      probability_dropout<1, 4>, value_bias, causal, rope<dynamic>, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .value_bias = true, .output_bias = true,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6,
            .routed = 0, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 41") { check<configuration_41>(); }

struct configuration_42 {
  static constexpr char const* name = "moa 42";
  using layer = Moa<6, 4, TwoStage<6, 0, 0, loss::cv_squared>, sliding_window<3>, value_bias, probability_dropout<1,
      4>, key_bias, query_bias, kv_heads<2>, learned_slope, output_bias, rope<dynamic>, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 0, .shared = 6, .routed = 0,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 42") { check<configuration_42>(); }

struct configuration_43 {
  static constexpr char const* name = "moa 43";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, loss::first_choice_balance, loss::head_balance_unscaled>, output_dropout<1,
      4>, first_and_latest_keys, value_dim<3>, key_bias, learned_slope, context_dim<5>, rope<dynamic>, learned_gain,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .key_bias = true, .context_width = 5,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 1, .routed = 5, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 43") { check<configuration_43>(); }

struct configuration_44 {
  static constexpr char const* name = "moa 44";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, loss::load_balance, loss::z>, query_bias, kv_heads<2>, key_bias,
      value_dim<3>, first_and_latest_keys, rope<dynamic>, soft_cap<2>, padded, alibi>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .key_bias = true,
            .kv_heads = 2, .value_width = 3, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::alibi}}, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moa 44") { check<configuration_44>(); }

struct configuration_45 {
  static constexpr char const* name = "moa 45";
  using layer = Moa<6, 4, TwoStage<0, 6, 2>, rope<dynamic>, neighbouring_keys, value_bias, query_bias,
      probability_dropout<1, 4>, geometric_alibi, output_dropout<1, 4>, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 45") { check<configuration_45>(); }

struct configuration_46 {
  static constexpr char const* name = "moa 46";
  using layer = Moa<6, 4, TwoStage<6, 0, 0>, output_dropout<1, 4>, value_bias, probability_dropout<1, 4>, key_bias,
      neighbouring_keys, soft_cap<2>, value_dim<3>, kv_heads<2>, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .key_bias = true, .value_bias = true, .kv_heads = 2,
            .value_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 0, .shared = 6, .routed = 0, .losses = {}};
  }
};
TEST_CASE("definition: moa 46") { check<configuration_46>(); }

struct configuration_47 {
  static constexpr char const* name = "moa 47";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>, output_bias,
      kv_heads<2>, context_dim<5>, value_bias, alibi, query_bias, value_dim<3>, rope<>, causal, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .rope_theta = 10000,
            .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}}, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 47") { check<configuration_47>(); }

}  // namespace headmix::definition::moa_5
