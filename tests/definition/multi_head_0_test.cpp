// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 0 to 7 of 26.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_0 {

struct configuration_0 {
  static constexpr char const* name = "multi_head 0";
  using layer = MultiHead<6, 6, 4, value_dim<3>, relative_position_bias<2, 3, 4>, output_bias, probability_dropout<1,
      4>, kv_heads<2>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .output_bias = true, .kv_heads = 2, .value_width = 3,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "multi_head 1";
  using layer = MultiHead<6, 6, 4, query_bias, cosine_scores<6>, context_dim<5>, output_dropout<1, 4>, key_bias,
      soft_cap<2>, padded, rope<>, value_bias, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .query_bias = true, .key_bias = true, .value_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "multi_head 2";
  using layer = MultiHead<6, 6, 4, key_bias, causal, qk_norm, learned_slope, context_dim<5>, kv_heads<2>, value_bias,
      rope<dynamic>, relative_position_bias<2, 3, 4, 3, 5>, output_bias, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .rope_theta = 50,
            .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}}};
  }
};
TEST_CASE("definition: multi_head 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "multi_head 3";
  using layer = MultiHead<6, 6, 4, relative_position_bias<2, 3, 4>, output_dropout<1, 4>, alibi, qk_norm,
      probability_dropout<1, 4>, rope<dynamic>, causal, padded, value_dim<3>, query_bias>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .value_width = 3,
            .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::alibi}}, .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "multi_head 4";
  using layer = MultiHead<6, 6, 4, output_dropout<1, 4>, sliding_window<3>, relative_position_bias<2, 3, 4, 3, 5>,
      kv_heads<2>, learned_slope, value_dim<3>, cosine_scores<6>, padded, probability_dropout<1, 4>, rope<>,
      learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .kv_heads = 2, .value_width = 3,
            .padded = true, .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "multi_head 5";
  using layer = MultiHead<6, 6, 4, sliding_window<3>, key_bias, query_bias, context_dim<5>, output_bias, alibi,
      value_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .output_bias = true, .context_width = 5, .maps = {{map_kind::alibi},
            {map_kind::place_and_head}}};
  }
};
TEST_CASE("definition: multi_head 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "multi_head 6";
  using layer = MultiHead<6, 6, 4, output_dropout<1, 4>, probability_dropout<1, 4>, kv_heads<2>, context_dim<5>,
      value_dim<3>, output_bias, rope<>, soft_cap<2>, first_and_latest_keys, geometric_alibi>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::first_and_latest, .output_bias = true,
            .kv_heads = 2, .context_width = 5, .value_width = 3, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2},
            {map_kind::geometric_alibi}}, .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "multi_head 7";
  using layer = MultiHead<6, 6, 4, value_bias, padded, learned_gain, qk_norm, query_bias, relative_position_bias<2, 3,
      4, 3, 5>, key_bias, first_and_latest_keys, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .value_bias = true, .padded = true, .scores = scores_kind::layer_norm, .image_height = 2,
            .image_width = 3, .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}};
  }
};
TEST_CASE("definition: multi_head 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::multi_head_0
