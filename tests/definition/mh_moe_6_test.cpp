// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 48 to 52 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_6 {

struct configuration_48 {
  static constexpr char const* name = "mh_moe 48";
  using layer = MhMoe<6, 3, TwoStage<1, 5, 2, loss::cv_squared>, FeedForward<3, activation::relu, weights::ternary>,
      subtoken_residual, head_bias, shared_expert<FeedForward<3>>, padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .router = router_kind::two_stage, .experts = 5, .top_k = 2,
            .shared = 1, .routed = 5, .losses = {loss_kind::cv_squared}, .split = 3, .head_bias = true,
            .residual = true, .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true},
            .shared_expert = {.hidden = 3}};
  }
};
TEST_CASE("definition: mh_moe 48") { check<configuration_48>(); }

struct configuration_49 {
  static constexpr char const* name = "mh_moe 49";
  using layer = MhMoe<6, 2, TwoStage<1, 5, 2, scaling::paper, loss::load_balance, loss::z>, FeedForward<3,
      activation::relu, weights::ternary>, shared_expert<FeedForward<3>>, capacity<1, 2>, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 1,
            .routed = 5, .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}, .split = 2,
            .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true},
            .shared_expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 49") { check<configuration_49>(); }

struct configuration_50 {
  static constexpr char const* name = "mh_moe 50";
  using layer = MhMoe<6, 1, TwoStage<2, 4, 1, loss::first_choice_balance, loss::head_balance_unscaled>, FeedForward<3,
      activation::relu>, output_bias, merge_bias, shared_expert<FeedForward<5, activation::gelu>>, output_dropout<1,
      4>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 1, .shared = 2, .routed = 4, .losses = {loss_kind::first_choice_balance,
            loss_kind::head_balance_unscaled}, .split = 1, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}};
  }
};
TEST_CASE("definition: mh_moe 50") { check<configuration_50>(); }

struct configuration_51 {
  static constexpr char const* name = "mh_moe 51";
  using layer = MhMoe<6, 2, TwoStage<0, 6, 2, scaling::paper>, FeedForward<3, activation::relu>, merge_bias,
      shared_expert<FeedForward<5, activation::gelu>>, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0,
            .routed = 6, .paper_scaling = true, .losses = {loss_kind::head_balance}, .split = 2, .merge_bias = true,
            .residual = true, .expert = {.hidden = 3, .activation = activation_kind::relu},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu}};
  }
};
TEST_CASE("definition: mh_moe 51") { check<configuration_51>(); }

struct configuration_52 {
  static constexpr char const* name = "mh_moe 52";
  using layer = MhMoe<6, 3, TwoStage<0, 6, 2, loss::first_choice_balance, loss::head_balance_unscaled>, FeedForward<3,
      activation::relu>, no_head, shared_expert<FeedForward<5, activation::gelu>>, capacity<1, 2>, output_bias,
      merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .router = router_kind::two_stage, .experts = 5, .top_k = 2,
            .shared = 0, .routed = 6, .losses = {loss_kind::first_choice_balance, loss_kind::head_balance_unscaled},
            .split = 3, .head = false, .merge_bias = true, .expert = {.hidden = 3,
            .activation = activation_kind::relu}, .shared_expert = {.hidden = 5, .activation = activation_kind::gelu},
            .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 52") { check<configuration_52>(); }

}  // namespace headmix::definition::mh_moe_6
