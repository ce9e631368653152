// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 8 to 15 of 37.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_1 {

struct configuration_8 {
  static constexpr char const* name = "mae 8";
  using layer = Mae<6, 5, 4, output_dropout<1, 4>, pool::all, geometric_alibi, probability_dropout<1, 4>,
      neighbouring_keys, rope<>, soft_cap<5, 2>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .rope_theta = 10000,
            .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .pool = pool_kind::all, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "mae 9";
  using layer = Mae<6, 5, 4, neighbouring_keys, left_out_heads<2>, learned_gain, context_dim<5>, padded, gate_dim<5>,
      pool::prefix, output_bias>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .context_width = 5,
            .padded = true, .maps = {{map_kind::learned_gain}}, .left_out = 2, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "mae 10";
  using layer = Mae<6, 5, 4, learned_slope, pool::window<2>, output_bias, rope<>, probability_dropout<1, 4>,
      place_and_head, soft_cap<dynamic>>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .rope_theta = 10000,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .pool = pool_kind::window, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "mae 11";
  using layer = Mae<6, 5, 4, left_out_heads<2>, padded, gate_dim<5>, causal, output_dropout<1, 4>, context_dim<5>,
      soft_cap<2>, geometric_alibi, learned_gain>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .context_width = 5, .padded = true,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .left_out = 2, .gate_dim = 5, .pool = pool_kind::prefix,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "mae 12";
  using layer = Mae<6, 5, 4, output_dropout<1, 4>, probability_dropout<1, 4>, pool::window<2>, output_bias,
      gate_dim<5>, rope<dynamic>, causal, alibi, context_dim<5>, soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .context_width = 5,
            .rope_theta = 50, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "mae 13";
  using layer = Mae<6, 5, 4, sliding_window<3>, output_dropout<1, 4>, padded, probability_dropout<1, 4>, pool::prefix,
      left_out_heads<2>, rope<>, alibi, soft_cap<5, 2>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "mae 14";
  using layer = Mae<6, 5, 4, padded, first_and_latest_keys, rope<>, output_dropout<1, 4>, soft_cap<2>, gate_dim<5>,
      left_out_heads<2>, pool::window<2>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}}, .output_dropout = 0.25, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "mae 15";
  using layer = Mae<6, 5, 4, context_dim<5>, learned_slope, rope<dynamic>, pool::window<2>, output_dropout<1, 4>,
      neighbouring_keys, place_and_head>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .context_width = 5, .rope_theta = 50,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}}, .output_dropout = 0.25,
            .pool = pool_kind::window};
  }
};
TEST_CASE("definition: mae 15") { check<configuration_15>(); }

}  // namespace headmix::definition::mae_1
