// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 16 to 23 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_2 {

struct configuration_16 {
  static constexpr char const* name = "mh_moe 16";
  using layer = MhMoe<6, 3, TwoStage<2, 4, 1, scaling::paper, loss::load_balance, loss::z>, FeedForward<3,
      weights::ternary>, output_bias, subtoken_residual, head_bias, shared_expert<FeedForward<5, activation::gelu>>,
      output_dropout<1, 4>, no_merge>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 1, .shared = 2, .routed = 4, .paper_scaling = true,
            .losses = {loss_kind::load_balance, loss_kind::z}, .split = 3, .merge = false, .head_bias = true,
            .residual = true, .expert = {.hidden = 3, .ternary = true}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}};
  }
};
TEST_CASE("definition: mh_moe 16") { check<configuration_16>(); }

struct configuration_17 {
  static constexpr char const* name = "mh_moe 17";
  using layer = MhMoe<6, 1, TwoStage<0, 6, 2, loss::cv_squared>, FeedForward<3, activation::relu>, capacity<1, 2>,
      padded, subtoken_residual, output_dropout<1, 4>, head_bias, shared_expert<FeedForward<4, activation::relu,
      weights::ternary>>, no_merge>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 2, .shared = 0, .routed = 6, .losses = {loss_kind::cv_squared}, .split = 1,
            .merge = false, .head_bias = true, .residual = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 4, .activation = activation_kind::relu,
            .ternary = true}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 17") { check<configuration_17>(); }

struct configuration_18 {
  static constexpr char const* name = "mh_moe 18";
  using layer = Smoe<6, TwoStage<1, 5, 2, loss::first_choice_balance, loss::head_balance_unscaled>, FeedForward<3,
      weights::ternary>, capacity<dynamic>, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1,
            .routed = 5, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}, .split = 1,
            .head = false, .merge = false, .residual = true, .expert = {.hidden = 3, .ternary = true},
            .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 18") { check<configuration_18>(); }

struct configuration_19 {
  static constexpr char const* name = "mh_moe 19";
  using layer = MhMoe<6, 1, TwoStage<6, 0, 0, scaling::paper>, FeedForward<3, activation::gelu>, merge_bias, padded,
      no_head, output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .router = router_kind::two_stage,
            .experts = 5, .top_k = 0, .shared = 6, .routed = 0, .paper_scaling = true, .losses = {}, .split = 1,
            .head = false, .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::gelu}};
  }
};
TEST_CASE("definition: mh_moe 19") { check<configuration_19>(); }

struct configuration_20 {
  static constexpr char const* name = "mh_moe 20";
  using layer = MhMoe<6, 2, TwoStage<1, 5, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      FeedForward<3, activation::gelu, weights::ternary>, padded, head_bias, output_dropout<1, 4>, capacity<1, 2>,
      shared_expert<FeedForward<4, activation::relu, weights::ternary>>, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 2, .shared = 1, .routed = 5, .paper_scaling = true,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled}, .split = 2,
            .head_bias = true, .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::gelu,
            .ternary = true}, .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 20") { check<configuration_20>(); }

struct configuration_21 {
  static constexpr char const* name = "mh_moe 21";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 1, gating::renormalized, sampled<1>>, FeedForward<3, weights::ternary>,
      subtoken_residual, no_merge, output_dropout<1, 4>, head_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_dropout = 0.25, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 1, .gating = gating_kind::renormalized, .sampled = 1, .losses = {loss_kind::load_balance,
            loss_kind::z}, .split = 2, .merge = false, .head_bias = true, .residual = true, .expert = {.hidden = 3,
            .ternary = true}};
  }
};
TEST_CASE("definition: mh_moe 21") { check<configuration_21>(); }

struct configuration_22 {
  static constexpr char const* name = "mh_moe 22";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 4, gating::detached, noise<>, sampled<2>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, FeedForward<3, weights::ternary>,
      head_bias, output_dropout<1, 4>, shared_expert<FeedForward<3>>, capacity<1>, subtoken_residual, padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 4, .noise = true, .sampled = 2, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 2, .head_bias = true,
            .residual = true, .expert = {.hidden = 3, .ternary = true}, .shared_expert = {.hidden = 3},
            .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 22") { check<configuration_22>(); }

struct configuration_23 {
  static constexpr char const* name = "mh_moe 23";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 2, gating::detached, noise<number<0>>, sampled<2>, init<fan_in_uniform>>,
      FeedForward<3, activation::gelu, weights::ternary>, head_bias, capacity<dynamic>, shared_expert<FeedForward<5,
      activation::gelu>>, output_bias, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .noise = true, .noise_floor = 0, .sampled = 2, .losses = {loss_kind::load_balance,
            loss_kind::z}, .split = 1, .head_bias = true, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::gelu, .ternary = true}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 23") { check<configuration_23>(); }

}  // namespace headmix::definition::mh_moe_2
