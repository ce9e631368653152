// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 8 to 15 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_1 {

struct configuration_8 {
  static constexpr char const* name = "mae 8";
  using layer = Mae<6, 5, 4, neighbouring_keys, probability_dropout<1, 4>, soft_cap<2>, padded, rope<>, pool::prefix,
      left_out_heads<2>, context_dim<5>, place_and_head>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .context_width = 5, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "mae 9";
  using layer = Mae<6, 5, 4, learned_slope, output_dropout<1, 4>, output_bias, value_dim<3>, gate_dim<5>,
      neighbouring_keys, context_dim<5>, pool::window<2>, rope<dynamic>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .context_width = 5,
            .value_width = 3, .rope_theta = 50, .maps = {{map_kind::learned_slope}}, .output_dropout = 0.25,
            .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "mae 10";
  using layer = Mae<6, 5, 4, gate_dim<5>, pool::window<2>, first_and_latest_keys, context_dim<5>, left_out_heads<2>,
      padded, geometric_alibi, learned_gain, soft_cap<5, 2>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .context_width = 5, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "mae 11";
  using layer = Mae<6, 5, 4, alibi, output_bias, pool::all, neighbouring_keys, output_dropout<1, 4>, learned_gain,
      soft_cap<dynamic>>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true,
            .maps = {{map_kind::alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25,
            .pool = pool_kind::all, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "mae 12";
  using layer = Mae<6, 5, 4, context_dim<5>, value_dim<3>, gate_dim<5>, rope<>, probability_dropout<1, 4>, soft_cap<2>,
      alibi>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .context_width = 5, .value_width = 3, .rope_theta = 10000,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}}, .probability_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::all, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "mae 13";
  using layer = Mae<6, 5, 4, causal, pool::all, context_dim<5>, value_dim<3>, padded, output_dropout<1, 4>,
      left_out_heads<2>, alibi, place_and_head, soft_cap<5, 2>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .context_width = 5, .value_width = 3,
            .padded = true, .maps = {{map_kind::alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::all, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "mae 14";
  using layer = Mae<6, 5, 4, padded, pool::prefix, left_out_heads<2>, rope<dynamic>, causal, geometric_alibi,
      gate_dim<5>, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}}, .left_out = 2, .gate_dim = 5,
            .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "mae 15";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, context_dim<5>, rope<>, value_dim<3>, output_bias,
      output_dropout<1, 4>, learned_slope, sliding_window<3>, pool::prefix, gate_dim<5>, learned_gain, soft_cap<5,
      2>>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .value_width = 3, .rope_theta = 10000, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 15") { check<configuration_15>(); }

}  // namespace headmix::definition::mae_1
