// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 8 to 15 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_1 {

struct configuration_8 {
  static constexpr char const* name = "mh_moe 8";
  using layer = MhMoe<6, 2, TwoStage<6, 0, 0>, FeedForward<3, weights::ternary>, subtoken_residual, capacity<1>,
      no_merge, output_dropout<1, 4>, head_bias, shared_expert<FeedForward<5, activation::gelu>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 0, .shared = 6, .routed = 0, .losses = {}, .split = 2, .merge = false, .head_bias = true,
            .residual = true, .expert = {.hidden = 3, .ternary = true}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 8") { check<configuration_8>(); }

struct configuration_9 {
  static constexpr char const* name = "mh_moe 9";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 4, gating::detached, loss::z, loss::cv_squared>, FeedForward<3,
      weights::ternary>, output_dropout<1, 4>, shared_expert<FeedForward<4, activation::relu, weights::ternary>>,
      padded, merge_bias, no_head>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::softmax_top_k,
            .experts = 5, .top_k = 4, .losses = {loss_kind::z, loss_kind::cv_squared}, .split = 1, .head = false,
            .merge_bias = true, .expert = {.hidden = 3, .ternary = true}, .shared_expert = {.hidden = 4,
            .activation = activation_kind::relu, .ternary = true}};
  }
};
TEST_CASE("definition: mh_moe 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "mh_moe 10";
  using layer = MhMoe<6, 3, TwoStage<0, 6, 2, scaling::paper, loss::cv_squared>, FeedForward<3, activation::gelu,
      weights::ternary>, capacity<1>, merge_bias, output_bias, no_head>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::two_stage, .experts = 5, .top_k = 2,
            .shared = 0, .routed = 6, .paper_scaling = true, .losses = {loss_kind::cv_squared}, .split = 3,
            .head = false, .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::gelu,
            .ternary = true}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "mh_moe 11";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 2, gating::renormalized, sampled<2>, loss::first_choice_balance,
      loss::head_balance>, FeedForward<3, activation::relu, weights::ternary>, no_head, shared_expert<FeedForward<3>>,
      capacity<dynamic>, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2,
            .gating = gating_kind::renormalized, .sampled = 2, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance}, .split = 1, .head = false, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu, .ternary = true}, .shared_expert = {.hidden = 3},
            .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "mh_moe 12";
  using layer = MhMoe<6, 1, LossFreeTopK<5, 2>, FeedForward<3, activation::gelu, weights::ternary>, capacity<1, 2>,
      no_merge, head_bias, padded, subtoken_residual, output_bias, shared_expert<FeedForward<3>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .router = router_kind::loss_free,
            .experts = 5, .split = 1, .merge = false, .head_bias = true, .residual = true, .expert = {.hidden = 3,
            .activation = activation_kind::gelu, .ternary = true}, .shared_expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 12") { check<configuration_12>(); }

struct configuration_13 {
  static constexpr char const* name = "mh_moe 13";
  using layer = MhMoe<6, 2, LossFreeTopK<5, 2>, FeedForward<3, activation::relu>, merge_bias, output_dropout<1, 4>,
      no_head, capacity<1>, shared_expert<FeedForward<4, activation::relu, weights::ternary>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_dropout = 0.25, .router = router_kind::loss_free, .experts = 5,
            .split = 2, .head = false, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 4, .activation = activation_kind::relu,
            .ternary = true}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "mh_moe 14";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 1, gating::raw, noise<>, loss::first_choice_balance, loss::head_balance>,
      FeedForward<3, activation::gelu>, no_merge, shared_expert<FeedForward<4, activation::relu, weights::ternary>>,
      subtoken_residual, capacity<dynamic>, padded, output_dropout<1, 4>, output_bias, head_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::raw, .noise = true,
            .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}, .split = 3, .merge = false,
            .head_bias = true, .residual = true, .expert = {.hidden = 3, .activation = activation_kind::gelu},
            .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "mh_moe 15";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 2, gating::raw, sampled<1>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, FeedForward<3, activation::relu>, merge_bias, head_bias, shared_expert<FeedForward<5,
      activation::gelu>>, capacity<1, 2>, output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::softmax_top_k, .experts = 5,
            .top_k = 2, .gating = gating_kind::raw, .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared},
            .split = 2, .head_bias = true, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 5, .activation = activation_kind::gelu},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 15") { check<configuration_15>(); }

}  // namespace headmix::definition::mh_moe_1
