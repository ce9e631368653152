// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 8 to 15 of 25.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_1 {

struct configuration_8 {
  static constexpr char const* name = "multi_head 8";
  using layer = MultiHead<6, 6, 4, qk_norm, learned_slope, probability_dropout<1, 4>, neighbouring_keys, output_bias,
      output_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, kv_heads<2>, key_bias, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true,
            .output_bias = true, .kv_heads = 2, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "multi_head 9";
  using layer = MultiHead<6, 6, 4, soft_cap<2>, context_dim<5>, query_bias, value_bias, padded,
      relative_position_bias<2, 3, 4>, cosine_scores<6>, rope<dynamic>, neighbouring_keys, alibi>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true,
            .value_bias = true, .context_width = 5, .padded = true, .rope_theta = 50, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}}};
  }
};
TEST_CASE("definition: multi_head 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "multi_head 10";
  using layer = MultiHead<6, 6, 4, geometric_alibi, output_dropout<1, 4>, key_bias, query_bias, probability_dropout<1,
      4>, rope<>, relative_position_bias<2, 3, 4, 3, 5>, cosine_scores<6>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .query_bias = true, .key_bias = true, .rope_theta = 10000,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap,
            2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "multi_head 11";
  using layer = MultiHead<6, 6, 4, padded, relative_position_bias<2, 3, 4, 3, 5>, kv_heads<2>, output_bias,
      context_dim<5>, learned_gain, causal, probability_dropout<1, 4>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "multi_head 12";
  using layer = MultiHead<6, 6, 4, kv_heads<2>, query_bias, geometric_alibi, rope<dynamic>, causal, padded, qk_norm>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .query_bias = true, .kv_heads = 2,
            .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::geometric_alibi}}};
  }
};
TEST_CASE("definition: multi_head 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "multi_head 13";
  using layer = MultiHead<6, 6, 4, rope<>, query_bias, key_bias, sliding_window<3>, learned_slope,
      probability_dropout<1, 4>, cosine_scores<6>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .rope_theta = 10000, .scores = scores_kind::cosine, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "multi_head 14";
  using layer = MultiHead<6, 6, 4, output_bias, kv_heads<2>, key_bias, relative_position_bias<2, 3, 4, 3, 5>,
      cosine_scores<6>, probability_dropout<1, 4>, query_bias, soft_cap<2>, context_dim<5>, first_and_latest_keys,
      padded, value_bias, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::first_and_latest, .query_bias = true,
            .key_bias = true, .value_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5,
            .padded = true, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "multi_head 15";
  using layer = MultiHead<6, 6, 4, soft_cap<5, 2>, output_bias, probability_dropout<1, 4>, context_dim<5>,
      relative_position_bias<2, 3, 4>, value_bias, padded, rope<>, neighbouring_keys>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .value_bias = true,
            .output_bias = true, .context_width = 5, .padded = true, .rope_theta = 10000, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 15") { check<configuration_15>(); }

}  // namespace headmix::definition::multi_head_1
