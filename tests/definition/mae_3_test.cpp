// SPDX-License-Identifier: MIT
// Written by generate.py: mae, configurations 24 to 31 of 36.

#include "headmix/layer/mae.hpp"

#include "check.hpp"
#include "headmix/backend/cpu.hpp"

namespace headmix::definition::mae_3 {

struct configuration_24 {
  static constexpr char const* name = "mae 24";
  using layer = Mae<6, 5, 4, probability_dropout<1, 4>, pool::window<2>, padded, sliding_window<3>, alibi, soft_cap<5,
      2>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .padded = true, .maps = {{map_kind::alibi},
            {map_kind::soft_cap, 2.5}}, .probability_dropout = 0.25, .pool = pool_kind::window};
  }
};
TEST_CASE("definition: mae 24") { check<configuration_24>(); }
TEST_CASE("definition: mae 24, Cpu<float>") { check<configuration_24, Cpu<float>>(1e-4); }

struct configuration_25 {
  static constexpr char const* name = "mae 25";
  using layer = Mae<6, 5, 4, sliding_window<3>, output_dropout<1, 4>, geometric_alibi, padded, gate_dim<5>,
      rope<dynamic>, context_dim<5>, place_and_head, soft_cap<dynamic>>::expert<choice::given>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::window, .context_width = 5, .padded = true,
            .rope_theta = 50, .maps = {{map_kind::geometric_alibi}, {map_kind::place_and_head}, {map_kind::soft_cap,
            1.5}}, .output_dropout = 0.25, .gate_dim = 5, .pool = pool_kind::all, .program = program_kind::given};
  }
};
TEST_CASE("definition: mae 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "mae 26";
  using layer = Mae<6, 5, 4, output_bias, first_and_latest_keys, left_out_heads<2>, rope<dynamic>, geometric_alibi,
      context_dim<5>, probability_dropout<1, 4>, gate_dim<5>, pool::all>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::first_and_latest, .output_bias = true,
            .context_width = 5, .rope_theta = 50, .maps = {{map_kind::geometric_alibi}}, .probability_dropout = 0.25,
            .left_out = 2, .gate_dim = 5, .pool = pool_kind::all};
  }
};
TEST_CASE("definition: mae 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "mae 27";
  using layer = Mae<6, 5, 4, soft_cap<2>, output_bias, context_dim<5>, output_dropout<1, 4>, gate_dim<5>,
      left_out_heads<2>, neighbouring_keys, pool::window<2>, alibi, learned_gain>::mean;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .output_bias = true, .context_width = 5,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::alibi}, {map_kind::learned_gain}}, .output_dropout = 0.25,
            .left_out = 2, .gate_dim = 5, .pool = pool_kind::window, .program = program_kind::mean};
  }
};
TEST_CASE("definition: mae 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "mae 28";
  using layer = Mae<6, 5, 4, output_dropout<1, 4>, left_out_heads<2>, padded, rope<>, probability_dropout<1, 4>,
      neighbouring_keys, alibi, pool::window<2>, soft_cap<dynamic>>::expert<choice::best>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::neighbours, .padded = true, .rope_theta = 10000,
            .maps = {{map_kind::alibi}, {map_kind::soft_cap, 1.5}}, .probability_dropout = 0.25,
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::window, .program = program_kind::best};
  }
};
TEST_CASE("definition: mae 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "mae 29";
  using layer = Mae<6, 5, 4, context_dim<5>, left_out_heads<2>, soft_cap<2>, output_dropout<1, 4>, rope<dynamic>,
      output_bias, pool::window<2>, learned_slope, learned_gain>::expert<choice::drawn>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .output_bias = true, .context_width = 5, .rope_theta = 50,
            .maps = {{map_kind::soft_cap, 2}, {map_kind::learned_slope}, {map_kind::learned_gain}},
            .output_dropout = 0.25, .left_out = 2, .pool = pool_kind::window, .program = program_kind::drawn};
  }
};
TEST_CASE("definition: mae 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "mae 30";
  using layer = Mae<6, 5, 4, padded, causal, gate_dim<5>, pool::all, output_bias, alibi, soft_cap<5, 2>>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .padded = true,
            .maps = {{map_kind::alibi}, {map_kind::soft_cap, 2.5}}, .gate_dim = 5, .pool = pool_kind::all};
  }
};
TEST_CASE("definition: mae 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "mae 31";
  using layer = Mae<6, 5, 4, context_dim<5>, output_dropout<1, 4>, output_bias, learned_gain, rope<dynamic>,
      gate_dim<5>, causal>::expert<choice::uniform>;
  static layer_options options() {
    return {.family = family::mae, .heads = 5, .mask = mask_kind::causal, .output_bias = true, .context_width = 5,
            .rope_theta = 50, .maps = {{map_kind::learned_gain}}, .output_dropout = 0.25, .gate_dim = 5,
            .pool = pool_kind::prefix, .program = program_kind::uniform};
  }
};
TEST_CASE("definition: mae 31") { check<configuration_31>(); }

}  // namespace headmix::definition::mae_3
