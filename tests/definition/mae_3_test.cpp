// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 24 to 31 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_3 {

struct configuration_24 {
  static constexpr char const* name = "mae 24";
  using layer = Mae<6, 5, 4, geometric_alibi, value_dim<3>, gate_dim<5>, output_dropout<1, 4>, left_out_heads<2>,
      causal, pool::prefix, padded, place_and_head, soft_cap<5, 2>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .value_width = 3, .padded = true,
            .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap, 2.5}},
            .output_dropout = 0.25, .left_out = 2, .gate_dim = 5, .pool = pool_kind::prefix,
            .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "mae 25";
  using layer = Mae<6, 5, 4, gate_dim<5>, output_bias, value_dim<3>, learned_gain, probability_dropout<1, 4>, causal,
      soft_cap<5, 2>>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .value_width = 3,
            .maps = {{map_kind::learned_gain}, {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "mae 26";
  using layer = Mae<6, 5, 4, rope<>, gate_dim<5>, place_and_head, output_bias, causal>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .rope_theta = 10000,
            .maps = {{map_kind::place_and_head}}, .gate_dim = 5, .pool = pool_kind::prefix,
            .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "mae 27";
  using layer = Mae<6, 5, 4, sliding_window<3>, pool::all, padded, soft_cap<2>, output_dropout<1, 4>, value_dim<3>,
      context_dim<5>, rope<>, alibi, learned_gain>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .context_width = 5, .value_width = 3,
            .padded = true, .rope_theta = 10000, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi},
            {map_kind::learned_gain}}, .output_dropout = 0.25, .pool = pool_kind::all};
  }
};
TEST_CASE("definition: mae 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "mae 28";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, geometric_alibi, output_dropout<1, 4>, pool::prefix,
      left_out_heads<2>, context_dim<5>, rope<>, sliding_window<3>, output_bias>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .rope_theta = 10000, .maps = {{map_kind::geometric_alibi}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::prefix, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "mae 29";
  using layer = Mae<6, 5, 4, learned_gain, pool::all, sliding_window<3>, soft_cap<dynamic>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .maps = {{map_kind::learned_gain},
            {map_kind::soft_cap, 1.5}}, .pool = pool_kind::all, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "mae 30";
  using layer = Mae<6, 5, 4, learned_slope, context_dim<5>, rope<dynamic>, first_and_latest_keys, pool::window<2>,
      padded, output_dropout<1, 4>, output_bias, learned_gain, soft_cap<dynamic>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .padded = true, .rope_theta = 50, .maps = {{map_kind::learned_slope},
            {map_kind::learned_gain}, {map_kind::soft_cap, 1.5}}, .output_dropout = 0.25, .pool = pool_kind::window,
            .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "mae 31";
  using layer = Mae<6, 5, 4, context_dim<5>, pool::prefix, output_dropout<1, 4>, output_bias, padded,
      probability_dropout<1, 4>, first_and_latest_keys, value_dim<3>, geometric_alibi>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .value_width = 3, .padded = true, .maps = {{map_kind::geometric_alibi}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .pool = pool_kind::prefix,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 31") { check<configuration_31>(); }

}  // namespace headmix::definition::mae_3
