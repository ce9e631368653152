// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 32 to 35 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_4 {

struct configuration_32 {
  static constexpr char const* name = "mae 32";
  using layer = Mae<6, 5, 4, gate_dim<5>, rope<dynamic>, left_out_heads<2>, pool::prefix, learned_slope, padded,
      output_dropout<1, 4>, first_and_latest_keys, context_dim<5>, output_bias, place_and_head,
      soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::prefix, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "mae 33";
  using layer = Mae<6, 5, 4, pool::prefix, output_bias, gate_dim<5>, output_dropout<1, 4>, value_dim<3>,
      context_dim<5>, alibi, padded, rope<>, left_out_heads<2>, neighbouring_keys, place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .context_width = 5,
            .value_width = 3, .padded = true, .rope_theta = 10000, .maps = {{map_kind::alibi},
            {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "mae 34";
  using layer = Mae<6, 5, 4, neighbouring_keys, pool::all, soft_cap<2>, rope<dynamic>, context_dim<5>, output_bias,
      value_dim<3>, alibi, learned_gain>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .context_width = 5,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi},
            {map_kind::learned_gain}}, .pool = pool_kind::all, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "mae 35";
  using layer = Mae<6, 5, 4, sliding_window<3>, alibi, output_dropout<1, 4>, rope<dynamic>,
      output_bias>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .rope_theta = 50,
            .maps = {{map_kind::alibi}}, .output_dropout = 0.25, .pool = pool_kind::prefix,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 35") { check<configuration_35>(); }

}  // namespace headmix::definition::mae_4
