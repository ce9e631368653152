// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 0 to 7 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_0 {

struct configuration_0 {
  static constexpr char const* name = "mh_moe 0";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 1, gating::renormalized, noise<>, sampled<1>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, FeedForward<3, activation::relu, weights::ternary>,
      shared_expert<FeedForward<5, activation::gelu>>, merge_bias, capacity<1>>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1,
            .gating = gating_kind::renormalized, .noise = true, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 1, .merge_bias = true,
            .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 0") { check<configuration_0>(); }

struct configuration_1 {
  static constexpr char const* name = "mh_moe 1";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 4, gating::detached, sampled<2>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, FeedForward<3, activation::gelu>, output_bias, padded, capacity<dynamic>, no_merge,
      subtoken_residual, shared_expert<FeedForward<4, activation::relu, weights::ternary>>, head_bias,
      output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .sampled = 2, .losses = {loss_kind::z,
            loss_kind::cv_squared}, .split = 3, .merge = false, .head_bias = true, .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu}, .shared_expert = {.hidden = 4,
            .activation = activation_kind::relu, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 1") { check<configuration_1>(); }
#ifndef HEADMIX_DEFINITION_FEW

struct configuration_2 {
  static constexpr char const* name = "mh_moe 2";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 2, gating::raw, noise<number<0>>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, FeedForward<3, weights::ternary>, output_bias,
      shared_expert<FeedForward<3>>, no_head, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::raw, .noise = true, .noise_floor = 0,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}, .split = 2, .head = false,
            .residual = true, .expert = {.hidden = 3, .ternary = true}, .shared_expert = {.hidden = 3}};
  }
};
TEST_CASE("definition: mh_moe 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "mh_moe 3";
  using layer = Smoe<6, SoftmaxTopK<5, 2, gating::raw, noise<>, sampled<2>>, FeedForward<3>, padded, capacity<1, 2>,
      output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 2, .gating = gating_kind::raw, .noise = true, .sampled = 2,
            .losses = {loss_kind::load_balance, loss_kind::z}, .split = 1, .head = false, .merge = false,
            .expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "mh_moe 4";
  using layer = MhMoe<6, 2, TwoStage<2, 4, 1, loss::load_balance, loss::z>, FeedForward<3, activation::gelu>,
      capacity<dynamic>, no_head, merge_bias, shared_expert<FeedForward<4, activation::relu, weights::ternary>>,
      padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .router = router_kind::two_stage, .experts = 5, .top_k = 1,
            .shared = 2, .routed = 4, .losses = {loss_kind::load_balance, loss_kind::z}, .split = 2, .head = false,
            .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::gelu},
            .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 4") { check<configuration_4>(); }

struct configuration_5 {
  static constexpr char const* name = "mh_moe 5";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 4, gating::detached, noise<number<0>>, init<fan_in_uniform>>, FeedForward<3,
      activation::relu, weights::ternary>, merge_bias, capacity<1, 2>, head_bias, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .noise = true,
            .noise_floor = 0, .losses = {loss_kind::load_balance, loss_kind::z}, .split = 3, .head_bias = true,
            .merge_bias = true, .residual = true, .expert = {.hidden = 3, .activation = activation_kind::relu,
            .ternary = true}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "mh_moe 6";
  using layer = MhMoe<6, 1, TwoStage<1, 5, 2, scaling::paper, loss::first_choice_balance, loss::head_balance_unscaled>,
      FeedForward<3, activation::relu>, head_bias, padded, no_merge, output_dropout<1, 4>,
      shared_expert<FeedForward<3>>, output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1, .routed = 5,
            .paper_scaling = true, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled},
            .split = 1, .merge = false, .head_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 3}};
  }
};
TEST_CASE("definition: mh_moe 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "mh_moe 7";
  using layer = Smoe<6, SoftmaxTopK<5, 1, gating::renormalized, noise<number<0>>, sampled<1>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, FeedForward<3, activation::gelu>,
      subtoken_residual, output_bias, capacity<1>, padded, shared_expert<FeedForward<5, activation::gelu>>,
      output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 1, .head = false, .merge = false,
            .residual = true, .expert = {.hidden = 3, .activation = activation_kind::gelu},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 7") { check<configuration_7>(); }

#endif

}  // namespace headmix::definition::mh_moe_0
