// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 16 to 23 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_2 {

struct configuration_16 {
  static constexpr char const* name = "mae 16";
  using layer = Mae<6, 5, 4, alibi, rope<>, pool::all, value_dim<3>, padded, first_and_latest_keys, output_dropout<1,
      4>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .value_width = 3, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::alibi}}, .output_dropout = 0.25, .pool = pool_kind::all,
            .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "mae 17";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, left_out_heads<2>, output_bias, gate_dim<5>, rope<dynamic>,
      padded, value_dim<3>, learned_gain, output_dropout<1, 4>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .value_width = 3, .padded = true, .rope_theta = 50,
            .maps = {{map_kind::learned_gain}}, .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::all, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "mae 18";
  using layer = Mae<6, 5, 4, learned_slope, pool::window<2>, context_dim<5>, gate_dim<5>, output_dropout<1, 4>,
      place_and_head, soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .context_width = 5, .maps = {{map_kind::learned_slope},
            {map_kind::place_and_head}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::window};
  }
};
TEST_CASE("definition: mae 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "mae 19";
  using layer = Mae<6, 5, 4, pool::all, soft_cap<2>, left_out_heads<2>, output_bias, sliding_window<3>, value_dim<3>,
      padded, learned_gain>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .value_width = 3,
            .padded = true, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_gain}}, .left_out = 2,
            .pool = pool_kind::all, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "mae 20";
  using layer = Mae<6, 5, 4, value_dim<3>, pool::prefix, output_dropout<1, 4>, probability_dropout<1, 4>,
      neighbouring_keys, padded, rope<>, geometric_alibi, learned_gain, soft_cap<5, 2>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .value_width = 3, .padded = true,
            .rope_theta = 10000, .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap,
            2.5}}, .probability_dropout = 0.25, .output_dropout = 0.25, .pool = pool_kind::prefix,
            .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "mae 21";
  using layer = Mae<6, 5, 4, pool::window<2>, gate_dim<5>, padded, rope<>, output_bias, soft_cap<2>, context_dim<5>,
      causal, place_and_head>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .context_width = 5,
            .padded = true, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}},
            .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "mae 22";
  using layer = Mae<6, 5, 4, first_and_latest_keys, output_bias, pool::prefix, context_dim<5>, left_out_heads<2>,
      padded, rope<dynamic>, probability_dropout<1, 4>, learned_slope, soft_cap<dynamic>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix,
            .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "mae 23";
  using layer = Mae<6, 5, 4, gate_dim<5>, rope<dynamic>, learned_slope, soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::soft_cap, 1.5}}, .gate_dim = 5, .pool = pool_kind::all, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 23") { check<configuration_23>(); }

}  // namespace headmix::definition::mae_2
