// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 8 to 15 of 26.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_1 {

struct configuration_8 {
  static constexpr char const* name = "multi_head 8";
  using layer = MultiHead<6, 6, 4, rope<>, soft_cap<2>, relative_position_bias<2, 3, 4>, context_dim<5>,
      neighbouring_keys, cosine_scores<6>, alibi, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .context_width = 5,
            .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}}};
  }
};
TEST_CASE("definition: multi_head 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "multi_head 9";
  using layer = MultiHead<6, 6, 4, probability_dropout<1, 4>, learned_slope, key_bias, padded, neighbouring_keys,
      output_dropout<1, 4>, output_bias, value_bias, query_bias, value_dim<3>, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true,
            .key_bias = true, .value_bias = true, .output_bias = true, .value_width = 3, .padded = true,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "multi_head 10";
  using layer = MultiHead<6, 6, 4, learned_gain, kv_heads<2>, query_bias, rope<dynamic>, output_bias, key_bias,
      cosine_scores<6>, context_dim<5>, neighbouring_keys, value_dim<3>, output_dropout<1, 4>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .query_bias = true,
            .key_bias = true, .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3,
            .rope_theta = 50, .scores = scores_kind::cosine, .maps = {{map_kind::learned_gain}, {map_kind::soft_cap,
            2.5}}, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "multi_head 11";
  using layer = MultiHead<6, 6, 4, probability_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, value_dim<3>,
      kv_heads<2>, rope<dynamic>, geometric_alibi, value_bias, qk_norm, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .value_bias = true, .kv_heads = 2, .value_width = 3,
            .rope_theta = 50, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "multi_head 12";
  using layer = MultiHead<6, 6, 4, probability_dropout<1, 4>, relative_position_bias<2, 3, 4>, context_dim<5>,
      cosine_scores<6>, value_bias, kv_heads<2>, key_bias, causal, geometric_alibi, output_dropout<1, 4>, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .key_bias = true, .value_bias = true,
            .kv_heads = 2, .context_width = 5, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "multi_head 13";
  using layer = MultiHead<6, 6, 4, value_dim<3>, soft_cap<2>, output_dropout<1, 4>, causal, rope<>, kv_heads<2>,
      learned_gain>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .kv_heads = 2, .value_width = 3,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_gain}}, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "multi_head 14";
  using layer = MultiHead<6, 6, 4, value_dim<3>, rope<dynamic>, soft_cap<2>, probability_dropout<1, 4>,
      relative_position_bias<2, 3, 4, 3, 5>, padded, key_bias, sliding_window<3>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .key_bias = true, .value_width = 3,
            .padded = true, .rope_theta = 50, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::soft_cap, 2}}, .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "multi_head 15";
  using layer = MultiHead<6, 6, 4, rope<dynamic>, value_bias, context_dim<5>, output_bias, value_dim<3>, alibi,
      relative_position_bias<2, 3, 4>, cosine_scores<6>, kv_heads<2>, first_and_latest_keys, learned_gain,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::first_and_latest, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .value_width = 3, .rope_theta = 50,
            .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .maps = {{map_kind::alibi},
            {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}};
  }
};
TEST_CASE("definition: multi_head 15") { check<configuration_15>(); }

}  // namespace headmix::definition::multi_head_1
