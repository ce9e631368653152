// SPDX-License-Identifier: MIT
// Written by generate.py: moa, configurations 48 to 51 of 52.

#include "headmix/layer/moa.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::moa_6 {

struct configuration_48 {
  static constexpr char const* name = "moa 48";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, scaling::paper>, value_dim<3>, probability_dropout<1, 4>, padded,
      query_bias, geometric_alibi, sliding_window<3>, rope<dynamic>, place_and_head, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::window, .query_bias = true, .value_width = 3, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap,
            2.5}}, .probability_dropout = 0.25, .router = router_kind::two_stage, .experts = 5, .top_k = 1,
            .shared = 2, .routed = 4, .paper_scaling = true, .losses = {loss_kind::head_balance}};
  }
};
TEST_CASE("definition: moa 48") { check<configuration_48>(); }

struct configuration_49 {
  static constexpr char const* name = "moa 49";
  using layer = Moa<6, 4, TwoStage<0, 6, 2, loss::cv_squared>, neighbouring_keys, query_bias, padded, alibi,
      place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::neighbours, .query_bias = true, .padded = true,
            .maps = {{map_kind::alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0, .routed = 6,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 49") { check<configuration_49>(); }

struct configuration_50 {
  static constexpr char const* name = "moa 50";
  using layer = Moa<6, 4, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, context_dim<5>, probability_dropout<1, 4>, value_dim<3>, output_dropout<1, 4>,
      first_and_latest_keys, key_bias, query_bias, rope<dynamic>, geometric_alibi, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::moa, .mask = mask_kind::first_and_latest, .query_bias = true, .key_bias = true,
            .context_width = 5, .value_width = 3, .rope_theta = 50, .maps = {{map_kind::geometric_alibi},
            {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4,
            .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .losses = {loss_kind::z,
            loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 50") { check<configuration_50>(); }

struct configuration_51 {
  static constexpr char const* name = "moa 51";
  using layer = Moa<6, 4, TwoStage<2, 4, 1, loss::cv_squared>, output_bias, kv_heads<2>, padded, query_bias, key_bias,
      value_dim<3>, rope<dynamic>, probability_dropout<1, 4>, context_dim<5>, geometric_alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::moa, .query_bias = true, .key_bias = true, .output_bias = true, .kv_heads = 2,
            .context_width = 5, .value_width = 3, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}}, .probability_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 1, .shared = 2, .routed = 4,
            .losses = {loss_kind::cv_squared}};
  }
};
TEST_CASE("definition: moa 51") { check<configuration_51>(); }

}  // namespace headmix::definition::moa_6
