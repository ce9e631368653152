// SPDX-License-Identifier: MIT
// Written by generate.py: moh, configurations 72 to 72 of 73.

#include "headmix/layer/moh.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moh_9 {

struct configuration_72 {
  static constexpr char const* name = "moh 72";
  using layer = Moh<6, 4, SoftmaxTopK<6, 1, gating::detached, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::z, loss::cv_squared>, relative_position_bias<2, 3, 4>, soft_cap<2>, value_dim<3>, sliding_window<3>,
      padded, output_bias, probability_dropout<1, 4>, learned_slope, place_and_head>;
  static layer_options options() {
    return {.family = family::moh, .heads = 6, .mask = mask_kind::window, .output_bias = true, .value_width = 3,
            .padded = true, .image_height = 2, .image_width = 3, .maps = {{map_kind::soft_cap, 2},
            {map_kind::learned_slope}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 6, .top_k = 1, .noise = true, .noise_floor = 0,
            .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moh 72") { check<configuration_72>(); }

}  // namespace headmix::definition::moh_9
