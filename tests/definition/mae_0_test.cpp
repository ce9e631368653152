// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 0 to 7 of 37.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_0 {

struct configuration_0 {
  static constexpr char const* name = "mae 0";
  using layer = Mae<6, 5, 4, padded, geometric_alibi, pool::window<2>, learned_gain, soft_cap<5,
      2>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .padded = true, .maps = {{map_kind::geometric_alibi},
            {map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .pool = pool_kind::window,
            .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "mae 1";
  using layer = Mae<6, 5, 4, rope<dynamic>, context_dim<5>, output_dropout<1, 4>, left_out_heads<2>, output_bias,
      probability_dropout<1, 4>, soft_cap<2>, pool::all, gate_dim<5>, alibi, place_and_head>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .context_width = 5, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::place_and_head}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2, .gate_dim = 5, .pool = pool_kind::all,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "mae 2";
  using layer = Mae<6, 5, 4, left_out_heads<2>, causal, learned_slope, rope<>, context_dim<5>, pool::prefix,
      soft_cap<dynamic>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .context_width = 5, .rope_theta = 10000,
            .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 1.5}}, .left_out = 2, .pool = pool_kind::prefix,
            .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "mae 3";
  using layer = Mae<6, 5, 4, causal, padded, probability_dropout<1, 4>, gate_dim<5>, rope<>, output_dropout<1, 4>,
      output_bias>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .padded = true,
            .rope_theta = 10000, .probability_dropout = 0.25, .output_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::prefix};
  }
};
TEST_CASE("definition: mae 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "mae 4";
  using layer = Mae<6, 5, 4, soft_cap<2>, sliding_window<3>, rope<dynamic>, place_and_head>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::place_and_head}}, .pool = pool_kind::prefix,
            .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "mae 5";
  using layer = Mae<6, 5, 4, pool::window<2>, gate_dim<5>, output_bias, sliding_window<3>, output_dropout<1, 4>,
      context_dim<5>, left_out_heads<2>, padded, probability_dropout<1, 4>, learned_slope, learned_gain,
      soft_cap<dynamic>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .padded = true, .maps = {{map_kind::learned_slope}, {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2, .gate_dim = 5,
            .pool = pool_kind::window, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "mae 6";
  using layer = Mae<6, 5, 4, left_out_heads<2>, pool::all, first_and_latest_keys, alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .maps = {{map_kind::alibi},
            {map_kind::learned_gain}}, .left_out = 2, .pool = pool_kind::all};
  }
};
TEST_CASE("definition: mae 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "mae 7";
  using layer = Mae<6, 5, 4, geometric_alibi, rope<dynamic>, padded, context_dim<5>, output_dropout<1, 4>,
      first_and_latest_keys, gate_dim<5>, pool::prefix, probability_dropout<1, 4>, output_bias, place_and_head,
      soft_cap<5, 2>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::geometric_alibi},
            {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .gate_dim = 5, .pool = pool_kind::prefix, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::mae_0
