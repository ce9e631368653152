// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 32 to 35 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"
#include "headmix/backend/cpu.hpp"

namespace headmix::definition::mae_4 {

struct configuration_32 {
  static constexpr char const* name = "mae 32";
  using layer = Mae<6, 5, 4, output_bias, learned_gain, rope<dynamic>, probability_dropout<1, 4>, left_out_heads<2>,
      sliding_window<3>, output_dropout<1, 4>>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .rope_theta = 50,
            .maps = {{map_kind::learned_gain}}, .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2,
            .pool = pool_kind::all, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 32") { check<configuration_32>(); }
TEST_CASE("definition: mae 32, Cpu<float>") { check<configuration_32, Cpu<float>>(1e-4); }

struct configuration_33 {
  static constexpr char const* name = "mae 33";
  using layer = Mae<6, 5, 4, soft_cap<2>, context_dim<5>, rope<dynamic>, first_and_latest_keys, output_bias, padded,
      probability_dropout<1, 4>, gate_dim<5>, learned_slope, learned_gain>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2},
            {map_kind::learned_slope}, {map_kind::learned_gain}}, .probability_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::all, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "mae 34";
  using layer = Mae<6, 5, 4, rope<>, context_dim<5>, first_and_latest_keys, soft_cap<2>, output_bias, pool::window<2>,
      probability_dropout<1, 4>, gate_dim<5>, place_and_head>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "mae 35";
  using layer = Mae<6, 5, 4, padded, rope<dynamic>, gate_dim<5>, neighbouring_keys, left_out_heads<2>, learned_slope,
      soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2.5}}, .left_out = 2, .gate_dim = 5,
            .pool = pool_kind::all};
  }
};
TEST_CASE("definition: mae 35") { check<configuration_35>(); }

}  // namespace headmix::definition::mae_4
