// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 32 to 39 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_4 {

struct configuration_32 {
  static constexpr char const* name = "moh 32";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::detached, sampled<2>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, output_dropout<1, 4>, dense_projections, context_dim<5>,
      key_bias, padded, value_dim<3>, value_bias, cosine_scores<6>, rope<>, query_bias, causal, output_bias,
      relative_position_bias<2, 3, 4>, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .context_width = 5, .value_width = 3, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::place_and_head}}, .output_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .sampled = 2,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "moh 33";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::raw, noise<>, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, geometric_alibi, cosine_scores<6>, query_bias, sliding_window<3>, dense_projections,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .query_bias = true,
            .scores = scores_kind::cosine, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 2.5}},
            .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2,
            .gating = gating_kind::raw, .noise = true, .sampled = 2, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "moh 34";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::z, loss::cv_squared>, value_bias, sliding_window<3>, value_dim<3>, soft_cap<2>, context_dim<5>,
      cosine_scores<6>, kv_heads<2>, probability_dropout<1, 4>, relative_position_bias<2, 3, 4>, padded,
      dense_projections, output_bias, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .value_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .padded = true, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi},
            {map_kind::place_and_head}}, .probability_dropout = 0.25, .dense_projections = true,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "moh 35";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::detached, noise<>, sampled<1>>, rope<>, dense_projections,
      relative_position_bias<2, 3, 4, 3, 5>, learned_gain, cosine_scores<6>, value_bias, kv_heads<2>,
      neighbouring_keys, probability_dropout<1, 4>, context_dim<5>, output_bias>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .value_bias = true, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_gain}},
            .probability_dropout = 0.25, .dense_projections = true, .router = router_kind::softmax_top_k, .experts = 6,
            .top_k = 1, .noise = true, .sampled = 1, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 35") { check<configuration_35>(); }

struct configuration_36 {
  static constexpr char const* name = "moh 36";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::raw, noise<number<0>>, loss::first_choice_balance,
      loss::head_balance>, kv_heads<2>, value_bias, rope<dynamic>, neighbouring_keys, relative_position_bias<2, 3, 4>,
      place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .value_bias = true, .kv_heads = 2,
            .rope_theta = 50, .image_height = 2, .image_width = 3, .maps = {{map_kind::place_and_head},
            {map_kind::soft_cap, 1.5}}, .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1,
            .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moh 36") { check<configuration_36>(); }

struct configuration_37 {
  static constexpr char const* name = "moh 37";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::detached, noise<>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, output_bias, learned_slope, value_bias, probability_dropout<1, 4>, rope<dynamic>, qk_norm,
      value_dim<3>, output_dropout<1, 4>, query_bias, first_and_latest_keys, learned_gain, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .value_bias = true, .output_bias = true, .value_width = 3, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 4, .noise = true, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 37") { check<configuration_37>(); }

struct configuration_38 {
  static constexpr char const* name = "moh 38";
  using layer = Moh<6, 4, SoftmaxTopK<6, 2, gating::renormalized, init<fan_in_uniform>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, value_dim<3>, soft_cap<2>, rope<>, query_bias, value_bias,
      context_dim<5>, neighbouring_keys, padded, relative_position_bias<2, 3, 4>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true, .value_bias = true,
            .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 10000, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 2, .gating = gating_kind::renormalized,
            .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled, loss_kind::load_balance}};
  }
};
TEST_CASE("definition: moh 38") { check<configuration_38>(); }

struct configuration_39 {
  static constexpr char const* name = "moh 39";
  using layer = Moh<6, 4, SoftmaxTopK<6, 4, gating::renormalized, noise<number<0>>, sampled<2>, init<fan_in_uniform>>,
      alibi, value_bias, padded, dense_projections, relative_position_bias<2, 3, 4>, rope<>, probability_dropout<1, 4>,
      output_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .value_bias = true, .output_bias = true, .padded = true,
            .rope_theta = 10000, .image_height = 2, .image_width = 3, .maps = {{map_kind::alibi}, {map_kind::soft_cap,
            1.5}}, .probability_dropout = 0.25, .dense_projections = true, .router = router_kind::softmax_top_k,
            .experts = 6, .top_k = 4, .gating = gating_kind::renormalized, .noise = true, .noise_floor = 0,
            .sampled = 2, .losses = {loss_kind::load_balance, loss_kind::z}};
  }
};
TEST_CASE("definition: moh 39") { check<configuration_39>(); }

}  // namespace headmix::definition::moh_4
