// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 16 to 23 of 37.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_2 {

struct configuration_16 {
  static constexpr char const* name = "mae 16";
  using layer = Mae<6, 5, 4, padded, output_bias, left_out_heads<2>, gate_dim<5>, pool::all, probability_dropout<1, 4>,
      output_dropout<1, 4>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .padded = true, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .gate_dim = 5, .pool = pool_kind::all,
            .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "mae 17";
  using layer = Mae<6, 5, 4, pool::all, geometric_alibi, context_dim<5>, probability_dropout<1, 4>, sliding_window<3>,
      gate_dim<5>, rope<>, learned_gain, soft_cap<dynamic>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .context_width = 5, .rope_theta = 10000,
            .maps = {{map_kind::geometric_alibi}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .gate_dim = 5, .pool = pool_kind::all, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "mae 18";
  using layer = Mae<6, 5, 4, pool::all, first_and_latest_keys, context_dim<5>, rope<dynamic>, soft_cap<2>, padded,
      learned_slope>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .context_width = 5, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}}, .pool = pool_kind::all,
            .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "mae 19";
  using layer = Mae<6, 5, 4, left_out_heads<2>, padded, neighbouring_keys, pool::prefix, output_bias, gate_dim<5>,
      rope<dynamic>, soft_cap<2>, alibi, learned_gain>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::learned_gain}},
            .left_out = 2, .gate_dim = 5, .pool = pool_kind::prefix, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "mae 20";
  using layer = Mae<6, 5, 4, gate_dim<5>, context_dim<5>, causal, place_and_head, output_dropout<1, 4>, soft_cap<5,
      2>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .context_width = 5,
            .maps = {{map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .output_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "mae 21";
  using layer = Mae<6, 5, 4, learned_slope, probability_dropout<1, 4>, sliding_window<3>, left_out_heads<2>,
      output_dropout<1, 4>, output_bias, place_and_head>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true,
            .maps = {{map_kind::learned_slope}, {map_kind::place_and_head}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "mae 22";
  using layer = Mae<6, 5, 4, soft_cap<dynamic>, left_out_heads<2>, output_bias, rope<>, first_and_latest_keys,
      pool::prefix>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .rope_theta = 10000, .maps = {{map_kind::soft_cap, 1.5}}, .left_out = 2, .pool = pool_kind::prefix,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "mae 23";
  using layer = Mae<6, 5, 4, rope<dynamic>, neighbouring_keys, pool::prefix, geometric_alibi, context_dim<5>, padded,
      soft_cap<dynamic>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .context_width = 5, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}},
            .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 23") { check<configuration_23>(); }

}  // namespace headmix::definition::mae_2
