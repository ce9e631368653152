// SPDX-License-Identifier: MIT
// Written by generate.py: multi_head, configurations 24 to 24 of 25.

#include "headmix/layer/multi_head.hpp"

#include "check.hpp"

namespace headmix::definition::multi_head_3 {

struct configuration_24 {
  static constexpr char const* name = "multi_head 24";
  using layer = MultiHead<6, 6, 4, rope<dynamic>, kv_heads<2>, output_dropout<1, 4>, soft_cap<2>, output_bias,
      query_bias, padded, sliding_window<3>, alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::multi_head, .heads = 6, .mask = mask_kind::window, .query_bias = true,
            .output_bias = true, .kv_heads = 2, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25};
  }
};
TEST_CASE("definition: multi_head 24") { check<configuration_24>(); }

}  // namespace headmix::definition::multi_head_3
