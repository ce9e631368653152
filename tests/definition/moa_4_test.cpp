// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 32 to 39 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_4 {

struct configuration_32 {
  static constexpr char const* name = "moa 32";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::renormalized, init<fan_in_uniform>, loss::first_choice_balance,
      loss::head_balance>, value_dim<3>, sliding_window<3>, padded, value_bias, alibi, output_dropout<1, 4>, rope<>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .value_bias = true, .value_width = 3, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::alibi}}, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::renormalized,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "moa 33";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::detached, noise<number<0>>, init<fan_in_uniform>>, value_bias,
      padded, neighbouring_keys, context_dim<5>, alibi, output_dropout<1, 4>, output_bias, query_bias,
      probability_dropout<1, 4>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .maps = {{map_kind::alibi}, {map_kind::soft_cap,
            1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 1, .noise = true, .noise_floor = 0, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "moa 34";
  using layer = Moa<6, 4, SoftmaxTopK<5, 1, gating::renormalized, noise<>, loss::first_choice_balance,
      loss::head_balance>, soft_cap<2>, probability_dropout<1, 4>, value_dim<3>, padded, query_bias, value_bias,
      rope<dynamic>, key_bias, first_and_latest_keys, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .key_bias = true,
            .value_bias = true, .value_width = 3, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::geometric_alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::renormalized,
            .noise = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "moa 35";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::detached, noise<>, sampled<1>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, neighbouring_keys, output_dropout<1, 4>,
      rope<>, kv_heads<2>, padded, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .kv_heads = 2, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::place_and_head}}, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 2, .noise = true, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 35") { check<configuration_35>(); }

struct configuration_36 {
  static constexpr char const* name = "moa 36";
  using layer = Moa<6, 4, SoftmaxTopK<5, 2, gating::detached, sampled<1>, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, value_dim<3>, kv_heads<2>, soft_cap<2>, context_dim<5>,
      geometric_alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moa, .kv_heads = 2, .context_width = 5, .value_width = 3, .maps = {{map_kind::soft_cap,
            2}, {map_kind::geometric_alibi}, {map_kind::place_and_head}}, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 2, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moa 36") { check<configuration_36>(); }

struct configuration_37 {
  static constexpr char const* name = "moa 37";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>, key_bias,
      kv_heads<2>, context_dim<5>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .key_bias = true, .kv_heads = 2, .context_width = 5, .maps = {{map_kind::soft_cap,
            2.5}}, .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moa 37") { check<configuration_37>(); }

struct configuration_38 {
  static constexpr char const* name = "moa 38";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::load_balance, loss::z>, probability_dropout<1, 4>,
      soft_cap<2>, query_bias, output_dropout<1, 4>, learned_slope>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 2, .shared = 0, .routed = 6, .paper_scaling = true, .losses = {loss_kind::load_balance,
            loss_kind::z}};
  }
};
TEST_CASE("definition: moa 38") { check<configuration_38>(); }

struct configuration_39 {
  static constexpr char const* name = "moa 39";
  using layer = Moa<6, 4, TwoStage<1, 5, 2, loss::cv_squared>, output_bias, query_bias, key_bias, alibi, rope<dynamic>,
      output_dropout<1, 4>, causal, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::causal, .query_bias = true, .key_bias = true,
            .output_bias = true, .rope_theta = 50, .maps = {{map_kind::alibi}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 39") { check<configuration_39>(); }

}  // namespace headmix::definition::moa_4
