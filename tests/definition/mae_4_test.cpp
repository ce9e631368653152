// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 32 to 36 of 37.

#include "headmix/layer/mae.hpp"

#include "check.hpp"

namespace headmix::definition::mae_4 {

struct configuration_32 {
  static constexpr char const* name = "mae 32";
  using layer = Mae<6, 5, 4, learned_slope, pool::window<2>, first_and_latest_keys, padded, probability_dropout<1, 4>,
      output_bias, soft_cap<5, 2>>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .padded = true, .maps = {{map_kind::learned_slope}, {map_kind::soft_cap, 2.5}},
            .probability_dropout = 0.25, .pool = pool_kind::window, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "mae 33";
  using layer = Mae<6, 5, 4, geometric_alibi, probability_dropout<1, 4>, output_dropout<1, 4>, neighbouring_keys,
      pool::window<2>, learned_gain>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .maps = {{map_kind::geometric_alibi},
            {map_kind::learned_gain}}, .probability_dropout = 0.25, .output_dropout = 0.25, .pool = pool_kind::window,
            .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "mae 34";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, left_out_heads<2>, neighbouring_keys, context_dim<5>, alibi,
      pool::prefix, gate_dim<5>, soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .context_width = 5,
            .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25, .left_out = 2,
            .gate_dim = 5, .pool = pool_kind::prefix, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "mae 35";
  using layer = Mae<6, 5, 4, context_dim<5>, padded, geometric_alibi, rope<dynamic>, output_bias, sliding_window<3>,
      probability_dropout<1, 4>, soft_cap<dynamic>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .output_bias = true, .context_width = 5,
            .padded = true, .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::soft_cap, 1.5}},
            .probability_dropout = 0.25, .pool = pool_kind::prefix, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 35") { check<configuration_35>(); }

struct configuration_36 {
  static constexpr char const* name = "mae 36";
  using layer = Mae<6, 5, 4, output_dropout<1, 4>, pool::all, probability_dropout<1, 4>, left_out_heads<2>,
      gate_dim<5>, neighbouring_keys, padded, soft_cap<2>, context_dim<5>, rope<dynamic>, alibi,
      learned_gain>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .context_width = 5, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::learned_gain}},
            .probability_dropout = 0.25, .output_dropout = 0.25, .left_out = 2, .gate_dim = 5, .pool = pool_kind::all,
            .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 36") { check<configuration_36>(); }

}  // namespace headmix::definition::mae_4
