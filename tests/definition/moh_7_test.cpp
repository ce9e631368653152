// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 56 to 63 of 69.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_7 {

struct configuration_56 {
  static constexpr char const* name = "moh 56";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active>, query_bias, context_dim<5>, padded, output_dropout<1,
      4>, alibi, probability_dropout<1, 4>, causal, relative_position_bias<2, 3, 4>, dense_projections,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .context_width = 5,
            .padded = true, .image_height = 2, .image_width = 3, .maps = {{map_kind::alibi}, {map_kind::soft_cap,
            1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3, .routed = 3,
            .estimates_active = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 56") { check<configuration_56>(); }

struct configuration_57 {
  static constexpr char const* name = "moh 57";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, loss::load_balance, loss::first_choice_balance>, relative_position_bias<2,
      3, 4>, cosine_scores<6>, query_bias, padded, kv_heads<2>, learned_gain, causal, rope<>, probability_dropout<1,
      4>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .kv_heads = 2,
            .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 57") { check<configuration_57>(); }

struct configuration_58 {
  static constexpr char const* name = "moh 58";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1>, sliding_window<3>, qk_norm, geometric_alibi, probability_dropout<1, 4>,
      padded, rope<>, relative_position_bias<2, 3, 4, 3, 5>, context_dim<5>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .context_width = 5, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 58") { check<configuration_58>(); }

struct configuration_59 {
  static constexpr char const* name = "moh 59";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, estimator::active, loss::head_balance_unscaled>, relative_position_bias<2,
      3, 4>, dense_projections, sliding_window<3>, value_bias, output_bias, qk_norm, key_bias, probability_dropout<1,
      4>, query_bias, soft_cap<2>, rope<>, learned_slope, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .rope_theta = 10000, .scores = scores_kind::layer_norm,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope},
            {map_kind::place_and_head}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1, .routed = 5,
            .estimates_active = true, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 59") { check<configuration_59>(); }

struct configuration_60 {
  static constexpr char const* name = "moh 60";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::load_balance, loss::first_choice_balance>, kv_heads<2>, key_bias,
      context_dim<5>, query_bias, padded, relative_position_bias<2, 3, 4, 3, 5>, cosine_scores<6>,
      first_and_latest_keys, place_and_head, probability_dropout<1, 4>, output_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .padded = true,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 60") { check<configuration_60>(); }

struct configuration_61 {
  static constexpr char const* name = "moh 61";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active, loss::load_balance, loss::first_choice_balance>,
      soft_cap<2>, output_dropout<1, 4>, rope<dynamic>, key_bias, neighbouring_keys, dense_projections, qk_norm,
      context_dim<5>, query_bias, kv_heads<2>, geometric_alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .kv_heads = 2, .context_width = 5, .rope_theta = 50, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .output_dropout = 0.25, .dense_projections = true, .router = router_kind::query_norm, .experts = 6,
            .top_k = 1, .shared = 3, .routed = 3, .estimates_active = true, .losses = {loss_kind::load_balance,
            loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 61") { check<configuration_61>(); }

struct configuration_62 {
  static constexpr char const* name = "moh 62";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2>, neighbouring_keys, probability_dropout<1, 4>, soft_cap<2>, rope<dynamic>,
      cosine_scores<6>, key_bias, output_bias, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .output_bias = true,
            .rope_theta = 50, .scores = scores_kind::cosine, .maps = {{map_kind::soft_cap, 2},
            {map_kind::learned_gain}}, .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6,
            .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 62") { check<configuration_62>(); }

struct configuration_63 {
  static constexpr char const* name = "moh 63";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active, loss::head_balance_unscaled>, output_dropout<1, 4>,
      rope<dynamic>, geometric_alibi, padded, first_and_latest_keys, relative_position_bias<2, 3, 4, 3, 5>,
      kv_heads<2>, output_bias, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .output_bias = true, .kv_heads = 2,
            .padded = true, .rope_theta = 50, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap,
            2.5}}, .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .estimates_active = true, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 63") { check<configuration_63>(); }

}  // namespace headmix::definition::moh_7
