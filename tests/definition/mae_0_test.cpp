// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 0 to 7 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_0 {

struct configuration_0 {
  static constexpr char const* name = "mae 0";
  using layer = Mae<6, 5, 4, padded, rope<dynamic>, gate_dim<5>, alibi, pool::prefix, left_out_heads<2>, soft_cap<5,
      2>>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .left_out = 2, .gate_dim = 5, .pool = pool_kind::prefix,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "mae 1";
  using layer = Mae<6, 5, 4, pool::all, value_dim<3>, output_dropout<1, 4>, context_dim<5>, soft_cap<2>,
      probability_dropout<1, 4>, output_bias, geometric_alibi, place_and_head>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .context_width = 5, .value_width = 3,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::geometric_alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .pool = pool_kind::all,
            .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "mae 2";
  using layer = Mae<6, 5, 4, padded, rope<>, output_dropout<1, 4>, causal, probability_dropout<1, 4>, context_dim<5>,
      left_out_heads<2>, learned_slope, learned_gain>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .context_width = 5, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "mae 3";
  using layer = Mae<6, 5, 4, value_dim<3>, causal, learned_gain, gate_dim<5>, pool::window<2>, rope<>, output_bias,
      soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .value_width = 3,
            .rope_theta = 10000, .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .gate_dim = 5,
            .pool = pool_kind::window, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "mae 4";
  using layer = Mae<6, 5, 4, pool::window<2>, probability_dropout<1, 4>, context_dim<5>, alibi, sliding_window<3>,
      output_dropout<1, 4>, value_dim<3>, left_out_heads<2>, rope<dynamic>, soft_cap<dynamic>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .context_width = 5, .value_width = 3,
            .rope_theta = 50, .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::window, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "mae 5";
  using layer = Mae<6, 5, 4, padded, left_out_heads<2>, geometric_alibi, output_bias, sliding_window<3>, gate_dim<5>,
      place_and_head>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}}, .left_out = 2, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "mae 6";
  using layer = Mae<6, 5, 4, soft_cap<2>, rope<dynamic>, gate_dim<5>, pool::all, first_and_latest_keys, padded,
      learned_slope, place_and_head>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::place_and_head}}, .gate_dim = 5,
            .pool = pool_kind::all, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "mae 7";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, pool::prefix, soft_cap<5, 2>, value_dim<3>,
      first_and_latest_keys, output_dropout<1, 4>, output_bias>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .value_width = 3, .maps = {{map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25,
            .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::mae_0
