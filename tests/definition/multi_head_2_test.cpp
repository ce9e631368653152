// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 16 to 23 of 26.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_2 {

struct configuration_16 {
  static constexpr char const* name = "multi_head 16";
  using layer = MultiHead<6, 6, 4, value_dim<3>, qk_norm, query_bias, alibi, rope<>, relative_position_bias<2, 3, 4, 3,
      5>, output_bias, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .query_bias = true, .output_bias = true, .value_width = 3,
            .rope_theta = 10000, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}}};
  }
};
TEST_CASE("definition: multi_head 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "multi_head 17";
  using layer = MultiHead<6, 6, 4, padded, relative_position_bias<2, 3, 4>, learned_slope, output_dropout<1, 4>,
      kv_heads<2>, output_bias, rope<>, cosine_scores<6>, probability_dropout<1, 4>, learned_gain>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .output_bias = true, .kv_heads = 2, .padded = true,
            .rope_theta = 10000, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3,
            .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "multi_head 18";
  using layer = MultiHead<6, 6, 4, output_bias, qk_norm, sliding_window<3>, value_bias, kv_heads<2>, context_dim<5>,
      soft_cap<2>, geometric_alibi>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .value_bias = true,
            .output_bias = true, .kv_heads = 2, .context_width = 5, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}}};
  }
};
TEST_CASE("definition: multi_head 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "multi_head 19";
  using layer = MultiHead<6, 6, 4, output_dropout<1, 4>, value_dim<3>, relative_position_bias<2, 3, 4>, learned_slope,
      probability_dropout<1, 4>, context_dim<5>, first_and_latest_keys, place_and_head>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::first_and_latest, .context_width = 5,
            .value_width = 3, .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}}, .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "multi_head 20";
  using layer = MultiHead<6, 6, 4, geometric_alibi, kv_heads<2>, probability_dropout<1, 4>, rope<dynamic>,
      context_dim<5>, relative_position_bias<2, 3, 4, 3, 5>, qk_norm, neighbouring_keys, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .kv_heads = 2, .context_width = 5,
            .rope_theta = 50, .scores = scores_kind::layer_norm, .image_height = 2, .image_width = 3,
            .trained_height = 3, .trained_width = 5, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "multi_head 21";
  using layer = MultiHead<6, 6, 4, causal, place_and_head, output_dropout<1, 4>, value_dim<3>, qk_norm, rope<>,
      probability_dropout<1, 4>, kv_heads<2>, padded, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::causal, .kv_heads = 2, .value_width = 3,
            .padded = true, .rope_theta = 10000, .scores = scores_kind::layer_norm,
            .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "multi_head 22";
  using layer = MultiHead<6, 6, 4, alibi, output_dropout<1, 4>, relative_position_bias<2, 3, 4, 3, 5>, kv_heads<2>,
      cosine_scores<6>, rope<dynamic>, key_bias, context_dim<5>, learned_gain, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .key_bias = true, .kv_heads = 2, .context_width = 5,
            .rope_theta = 50, .scores = scores_kind::cosine, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "multi_head 23";
  using layer = MultiHead<6, 6, 4, cosine_scores<6>, value_bias, sliding_window<3>, learned_slope, key_bias,
      output_dropout<1, 4>, context_dim<5>, padded, query_bias, relative_position_bias<2, 3, 4>, value_dim<3>,
      probability_dropout<1, 4>, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .query_bias = true, .key_bias = true,
            .value_bias = true, .context_width = 5, .value_width = 3, .padded = true, .scores = scores_kind::cosine,
            .image_height = 2, .image_width = 3, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 23") { check<configuration_23>(); }

}  // namespace headmix::definition::multi_head_2
