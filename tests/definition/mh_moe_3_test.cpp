// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 24 to 31 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_3 {

struct configuration_24 {
  static constexpr char const* name = "mh_moe 24";
  using layer = Smoe<6, TwoStage<0, 6, 2, loss::cv_squared>, FeedForward<3>, output_bias, subtoken_residual,
      shared_expert<FeedForward<3>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::two_stage, .experts = 5, .top_k = 2,
            .shared = 0, .routed = 6, .losses = {loss_kind::cv_squared}, .split = 1, .head = false, .merge = false,
            .residual = true, .expert = {.hidden = 3}, .shared_expert = {.hidden = 3}};
  }
};
TEST_CASE("definition: mh_moe 24") { check<configuration_24>(); }

struct configuration_25 {
  static constexpr char const* name = "mh_moe 25";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 1, gating::renormalized, noise<number<0>>, sampled<1>, loss::z,
      loss::cv_squared>, FeedForward<3>, subtoken_residual, shared_expert<FeedForward<3>>, output_dropout<1, 4>,
      no_head, output_bias, capacity<1, 2>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .gating = gating_kind::renormalized,
            .noise = true, .noise_floor = 0, .sampled = 1, .losses = {loss_kind::z, loss_kind::cv_squared}, .split = 3,
            .head = false, .residual = true, .expert = {.hidden = 3}, .shared_expert = {.hidden = 3},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 25") { check<configuration_25>(); }

struct configuration_26 {
  static constexpr char const* name = "mh_moe 26";
  using layer = Smoe<6, SoftmaxTopK<5, 2, gating::renormalized, loss::z_with_padding, loss::head_balance_unscaled,
      loss::load_balance>, FeedForward<3, activation::relu, weights::ternary>, shared_expert<FeedForward<4,
      activation::relu, weights::ternary>>, capacity<1>>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 2,
            .gating = gating_kind::renormalized, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 1, .head = false, .merge = false,
            .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true},
            .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 26") { check<configuration_26>(); }

struct configuration_27 {
  static constexpr char const* name = "mh_moe 27";
  using layer = MhMoe<6, 3, LossFreeTopK<5, 2>, FeedForward<3, weights::ternary>, output_dropout<1, 4>, padded,
      capacity<dynamic>>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::loss_free,
            .experts = 5, .split = 3, .expert = {.hidden = 3, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 27") { check<configuration_27>(); }

struct configuration_28 {
  static constexpr char const* name = "mh_moe 28";
  using layer = Smoe<6, LossFreeTopK<5, 2>, FeedForward<3, activation::relu>, shared_expert<FeedForward<5,
      activation::gelu>>>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::loss_free, .experts = 5, .split = 1, .head = false,
            .merge = false, .expert = {.hidden = 3, .activation = activation_kind::relu},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}};
  }
};
TEST_CASE("definition: mh_moe 28") { check<configuration_28>(); }

struct configuration_29 {
  static constexpr char const* name = "mh_moe 29";
  using layer = Smoe<6, SoftmaxTopK<5, 4, gating::detached, noise<number<0>>, sampled<1>, loss::first_choice_balance,
      loss::head_balance>, FeedForward<3, activation::relu, weights::ternary>, subtoken_residual, capacity<dynamic>,
      padded, output_bias, shared_expert<FeedForward<4, activation::relu, weights::ternary>>, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .noise = true, .noise_floor = 0,
            .sampled = 1, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}, .split = 1,
            .head = false, .merge = false, .residual = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu, .ternary = true}, .shared_expert = {.hidden = 4,
            .activation = activation_kind::relu, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 29") { check<configuration_29>(); }

struct configuration_30 {
  static constexpr char const* name = "mh_moe 30";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 4, gating::raw, noise<number<0>>, init<fan_in_uniform>,
      loss::first_choice_balance, loss::head_balance>, FeedForward<3, activation::gelu>, shared_expert<FeedForward<5,
      activation::gelu>>, output_bias, capacity<1>, subtoken_residual, output_dropout<1, 4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 4, .gating = gating_kind::raw, .noise = true,
            .noise_floor = 0, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance}, .split = 1,
            .residual = true, .expert = {.hidden = 3, .activation = activation_kind::gelu},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 30") { check<configuration_30>(); }

struct configuration_31 {
  static constexpr char const* name = "mh_moe 31";
  using layer = Smoe<6, SoftmaxTopK<5, 1, gating::detached, noise<>, sampled<1>, init<fan_in_uniform>, loss::z,
      loss::cv_squared>, FeedForward<3, weights::ternary>, padded, output_bias, output_dropout<1, 4>,
      subtoken_residual, capacity<1>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .noise = true, .sampled = 1,
            .losses = {loss_kind::z, loss_kind::cv_squared}, .split = 1, .head = false, .merge = false,
            .residual = true, .expert = {.hidden = 3, .ternary = true}, .capacity = 1};
  }
};
TEST_CASE("definition: mh_moe 31") { check<configuration_31>(); }

}  // namespace headmix::definition::mh_moe_3
