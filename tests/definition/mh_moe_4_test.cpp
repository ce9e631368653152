// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 32 to 39 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_4 {

struct configuration_32 {
  static constexpr char const* name = "mh_moe 32";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 4, gating::renormalized, sampled<1>, loss::first_choice_balance,
      loss::head_balance>, FeedForward<3>, capacity<1, 2>, no_merge, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4,
            .gating = gating_kind::renormalized, .sampled = 1, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}, .split = 2, .merge = false, .residual = true, .expert = {.hidden = 3},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 32") { check<configuration_32>(); }

struct configuration_33 {
  static constexpr char const* name = "mh_moe 33";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 2, gating::raw, noise<>, sampled<2>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, FeedForward<3, activation::relu,
      weights::ternary>, merge_bias, head_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2,
            .gating = gating_kind::raw, .noise = true, .sampled = 2, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 3, .head_bias = true,
            .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true}};
  }
};
TEST_CASE("definition: mh_moe 33") { check<configuration_33>(); }

struct configuration_34 {
  static constexpr char const* name = "mh_moe 34";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 4, gating::raw, noise<>, sampled<2>, init<fan_in_uniform>>, FeedForward<3,
      activation::gelu, weights::ternary>, no_merge, output_dropout<1, 4>, capacity<1>, no_head,
      shared_expert<FeedForward<3>>, padded, output_bias, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .sampled = 2, .losses = {loss_kind::load_balance, loss_kind::z}, .split = 2, .head = false, .merge = false,
            .residual = true, .expert = {.hidden = 3, .activation = activation_kind::gelu, .ternary = true},
            .shared_expert = {.hidden = 3}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 34") { check<configuration_34>(); }

struct configuration_35 {
  static constexpr char const* name = "mh_moe 35";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, init<fan_in_uniform>>, FeedForward<3,
      activation::gelu, weights::ternary>, capacity<1, 2>, no_head, shared_expert<FeedForward<4, activation::relu,
      weights::ternary>>, padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4,
            .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .losses = {loss_kind::load_balance,
            loss_kind::z}, .split = 1, .head = false, .expert = {.hidden = 3, .activation = activation_kind::gelu,
            .ternary = true}, .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 35") { check<configuration_35>(); }

struct configuration_36 {
  static constexpr char const* name = "mh_moe 36";
  using layer = Smoe<6, TwoStage<2, 4, 1, scaling::paper, loss::load_balance, loss::z>, FeedForward<3,
      activation::relu, weights::ternary>, capacity<1>, output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::two_stage, .experts = 5, .top_k = 1,
            .shared = 2, .routed = 4, .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z},
            .split = 1, .head = false, .merge = false, .expert = {.hidden = 3, .activation = activation_kind::relu,
            .ternary = true}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 36") { check<configuration_36>(); }

struct configuration_37 {
  static constexpr char const* name = "mh_moe 37";
  using layer = MhMoe<6, 3, TwoStage<2, 4, 1>, FeedForward<3, activation::relu>, head_bias,
      shared_expert<FeedForward<3>>, no_merge, output_bias, capacity<1, 2>, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 1, .shared = 2, .routed = 4, .losses = {loss_kind::head_balance}, .split = 3,
            .merge = false, .head_bias = true, .expert = {.hidden = 3, .activation = activation_kind::relu},
            .shared_expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 37") { check<configuration_37>(); }

struct configuration_38 {
  static constexpr char const* name = "mh_moe 38";
  using layer = MhMoe<6, 3, TwoStage<6, 0, 0, scaling::paper, loss::cv_squared>, FeedForward<3, activation::relu,
      weights::ternary>, subtoken_residual, capacity<dynamic>, output_bias, head_bias, output_dropout<1, 4>,
      shared_expert<FeedForward<3>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 0, .shared = 6, .routed = 0, .paper_scaling = true,
            .losses = {loss_kind::cv_squared}, .split = 3, .head_bias = true, .residual = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu, .ternary = true}, .shared_expert = {.hidden = 3},
            .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 38") { check<configuration_38>(); }

struct configuration_39 {
  static constexpr char const* name = "mh_moe 39";
  using layer = MhMoe<6, 3, TwoStage<1, 5, 2, loss::first_choice_balance, loss::head_balance_unscaled>, FeedForward<3>,
      capacity<1>, output_dropout<1, 4>, padded, subtoken_residual, shared_expert<FeedForward<5, activation::gelu>>,
      no_head>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 2, .shared = 1, .routed = 5, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}, .split = 3, .head = false, .residual = true, .expert = {.hidden = 3},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 39") { check<configuration_39>(); }

}  // namespace headmix::definition::mh_moe_4
