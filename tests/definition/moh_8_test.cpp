// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 64 to 71 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_8 {

struct configuration_64 {
  static constexpr char const* name = "moh 64";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, key_bias, rope<>, padded, geometric_alibi,
      probability_dropout<1, 4>, context_dim<5>, causal, relative_position_bias<2, 3, 4>, place_and_head, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .context_width = 5,
            .padded = true, .rope_theta = 10000, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 64") { check<configuration_64>(); }

struct configuration_65 {
  static constexpr char const* name = "moh 65";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, dense_projections, rope<dynamic>, padded,
      output_bias, relative_position_bias<2, 3, 4, 3, 5>, place_and_head, value_bias, kv_heads<2>,
      probability_dropout<1, 4>, context_dim<5>, value_dim<3>, key_bias, sliding_window<3>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .image_height = 2, .image_width = 3, .trained_height = 3, .trained_width = 5,
            .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 65") { check<configuration_65>(); }

struct configuration_66 {
  static constexpr char const* name = "moh 66";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active, loss::load_balance, loss::first_choice_balance>,
      key_bias, relative_position_bias<2, 3, 4, 3, 5>, first_and_latest_keys, probability_dropout<1, 4>, soft_cap<2>,
      output_bias, context_dim<5>, query_bias, kv_heads<2>, output_dropout<1, 4>, padded, rope<dynamic>, value_bias,
      dense_projections, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5,
            .padded = true, .rope_theta = 50, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3, .routed = 3,
            .estimates_active = true, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 66") { check<configuration_66>(); }

struct configuration_67 {
  static constexpr char const* name = "moh 67";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, loss::head_balance_unscaled>, first_and_latest_keys, cosine_scores<6>,
      output_dropout<1, 4>, kv_heads<2>, rope<dynamic>, key_bias, context_dim<5>, output_bias, learned_slope,
      place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 50, .scores = scores_kind::cosine,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .output_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 67") { check<configuration_67>(); }

struct configuration_68 {
  static constexpr char const* name = "moh 68";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1>, context_dim<5>, geometric_alibi, value_dim<3>, output_bias,
      rope<dynamic>, relative_position_bias<2, 3, 4, 3, 5>, value_bias, neighbouring_keys, key_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .value_bias = true,
            .output_bias = true, .context_width = 5, .value_width = 3, .rope_theta = 50, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi},
            {map_kind::place_and_head}}, .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3,
            .routed = 3, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 68") { check<configuration_68>(); }

struct configuration_69 {
  static constexpr char const* name = "moh 69";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, estimator::active, loss::load_balance, loss::first_choice_balance>,
      soft_cap<2>, query_bias, cosine_scores<6>, dense_projections, output_bias, probability_dropout<1, 4>, padded,
      alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .output_bias = true, .padded = true,
            .scores = scores_kind::cosine, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi},
            {map_kind::learned_gain}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1, .routed = 5,
            .estimates_active = true, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 69") { check<configuration_69>(); }

struct configuration_70 {
  static constexpr char const* name = "moh 70";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1>, alibi, output_bias, dense_projections, value_dim<3>,
      first_and_latest_keys, query_bias, value_bias, rope<dynamic>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .value_bias = true, .output_bias = true, .value_width = 3, .rope_theta = 50, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .dense_projections = true, .router = router_kind::query_norm, .experts = 6,
            .top_k = 1, .shared = 3, .routed = 3, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 70") { check<configuration_70>(); }

struct configuration_71 {
  static constexpr char const* name = "moh 71";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::renormalized, noise<>, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, learned_slope, padded, probability_dropout<1, 4>, value_dim<3>, output_bias,
      cosine_scores<6>, output_dropout<1, 4>, kv_heads<2>, rope<>, value_bias, neighbouring_keys, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .value_bias = true, .output_bias = true,
            .kv_heads = 2, .value_width = 3, .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2,
            .gating = gating_kind::renormalized, .noise = true, .sampled = 2,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 71") { check<configuration_71>(); }

}  // namespace headmix::definition::moh_8
