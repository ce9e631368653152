// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 24 to 25 of 26.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_3 {

struct configuration_24 {
  static constexpr char const* name = "multi_head 24";
  using layer = MultiHead<6, 6, 4, kv_heads<2>, probability_dropout<1, 4>, output_bias, learned_gain, output_dropout<1,
      4>, relative_position_bias<2, 3, 4, 3, 5>, padded, neighbouring_keys, rope<dynamic>>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .output_bias = true,
            .kv_heads = 2, .padded = true, .rope_theta = 50, .image_height = 2, .image_width = 3, .trained_height = 3,
            .trained_width = 5, .maps = {{map_kind::learned_gain}}, .probability_dropout = 0.25,
            .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "multi_head 25";
  using layer = MultiHead<6, 6, 4, key_bias, context_dim<5>, kv_heads<2>, padded, soft_cap<2>,
      relative_position_bias<2, 3, 4>, rope<dynamic>, neighbouring_keys, qk_norm, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::neighbours, .key_bias = true, .kv_heads = 2,
            .context_width = 5, .padded = true, .rope_theta = 50, .scores = scores_kind::layer_norm, .image_height = 2,
            .image_width = 3, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}}};
  }
};
TEST_CASE("definition: multi_head 25") { check<configuration_25>(); }

}  // namespace headmix::definition::multi_head_3
