// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 16 to 23 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_2 {

struct configuration_16 {
  static constexpr char const* name = "moh 16";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3>, query_bias, probability_dropout<1, 4>, value_dim<3>, alibi, padded,
      context_dim<5>, rope<>, value_bias, relative_position_bias<2, 3, 4>, cosine_scores<6>, key_bias, place_and_head,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .query_bias = true, .key_bias = true, .value_bias = true,
            .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::alibi}, {map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6,
            .top_k = 3, .shared = 1, .routed = 5, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "moh 17";
  using layer = Moh<6, 4, TwoStage<6, 0, 0, scaling::paper>, padded, causal, query_bias, relative_position_bias<2, 3,
      4>, cosine_scores<6>, key_bias, geometric_alibi, output_bias, probability_dropout<1, 4>, context_dim<5>,
      learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .key_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .scores = scores_kind::cosine, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap,
            1.5}}, .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 6, .top_k = 0,
            .shared = 6, .routed = 0, .paper_scaling = true, .losses = {}};
  }
};
TEST_CASE("definition: moh 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "moh 18";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::detached>, value_dim<3>, output_dropout<1, 4>, sliding_window<3>,
      query_bias, kv_heads<2>, key_bias, relative_position_bias<2, 3, 4>, soft_cap<2>, probability_dropout<1, 4>,
      context_dim<5>, geometric_alibi>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1,
            .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "moh 19";
  using layer = Moh<6, 4, QueryNorm<3, 3, 1, estimator::active, loss::load_balance, loss::first_choice_balance>,
      learned_slope, padded, sliding_window<3>, output_dropout<1, 4>, context_dim<5>, cosine_scores<6>, query_bias,
      place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true, .context_width = 5,
            .padded = true, .scores = scores_kind::cosine, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25,
            .router = router_kind::query_norm, .experts = 6, .top_k = 1, .shared = 3, .routed = 3,
            .estimates_active = true, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "moh 20";
  using layer = Moh<6, 4, TwoStage<0, 6, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      qk_norm, place_and_head, first_and_latest_keys, dense_projections, relative_position_bias<2, 3, 4, 3, 5>,
      output_dropout<1, 4>, key_bias, output_bias, rope<>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .output_bias = true, .rope_theta = 10000, .scores = scores_kind::layer_norm, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::place_and_head},
            {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::two_stage, .experts = 6, .top_k = 2, .shared = 0, .routed = 6,
            .paper_scaling = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "moh 21";
  using layer = Moh<6, 4, QueryNorm<1, 5, 3, loss::head_balance_unscaled>, probability_dropout<1, 4>, output_bias,
      key_bias, value_bias, alibi, value_dim<3>, dense_projections, relative_position_bias<2, 3, 4, 3, 5>,
      first_and_latest_keys>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .key_bias = true,
            .value_bias = true, .output_bias = true, .value_width = 3, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi}}, .probability_dropout = 0.25,
            .dense_projections = true, .router = router_kind::query_norm, .experts = 6, .top_k = 3, .shared = 1,
            .routed = 5, .losses = {loss_kind::head_balance_unscaled}};
  }
};
TEST_CASE("definition: moh 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "moh 22";
  using layer = Moh<6, 4, QueryNorm<0, 6, 2, loss::load_balance, loss::first_choice_balance>, geometric_alibi,
      kv_heads<2>, context_dim<5>, neighbouring_keys, query_bias, value_bias, rope<dynamic>, qk_norm, value_dim<3>,
      key_bias, padded, relative_position_bias<2, 3, 4>, probability_dropout<1, 4>, place_and_head,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .key_bias = true,
            .value_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .router = router_kind::query_norm, .experts = 6, .top_k = 2, .shared = 0,
            .routed = 6, .losses = {loss_kind::load_balance, loss_kind::first_choice_balance}};
  }
};
TEST_CASE("definition: moh 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "moh 23";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::detached, noise<>, sampled<1>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, alibi, relative_position_bias<2, 3, 4>, probability_dropout<1,
      4>, padded, kv_heads<2>, output_dropout<1, 4>, rope<dynamic>, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .kv_heads = 2, .padded = true, .rope_theta = 50, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 6,
            .top_k = 2, .noise = true, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 23") { check<configuration_23>(); }

}  // namespace headmix::definition::moh_2
