// SPDX-License-Identifier: MIT
// Written by generate.py: mh_moe, configurations 40 to 47 of 53.

#include "headmix/layer/smoe.hpp"

#include "check.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::mh_moe_5 {

struct configuration_40 {
  static constexpr char const* name = "mh_moe 40";
  using layer = MhMoe<6, 2, TwoStage<0, 6, 2, scaling::paper, loss::cv_squared>, FeedForward<3>, padded,
      shared_expert<FeedForward<5, activation::gelu>>, capacity<dynamic>, no_head, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .router = router_kind::two_stage, .experts = 5, .top_k = 2,
            .shared = 0, .routed = 6, .paper_scaling = true, .losses = {loss_kind::cv_squared}, .split = 2,
            .head = false, .merge_bias = true, .expert = {.hidden = 3}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 40") { check<configuration_40>(); }

struct configuration_41 {
  static constexpr char const* name = "mh_moe 41";
  using layer = Smoe<6, TwoStage<6, 0, 0>, FeedForward<3>, shared_expert<FeedForward<4, activation::relu,
      weights::ternary>>, capacity<dynamic>, subtoken_residual, output_dropout<1, 4>, padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 0, .shared = 6, .routed = 0, .losses = {}, .split = 1, .head = false,
            .merge = false, .residual = true, .expert = {.hidden = 3}, .shared_expert = {.hidden = 4,
            .activation = activation_kind::relu, .ternary = true}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 41") { check<configuration_41>(); }

struct configuration_42 {
  static constexpr char const* name = "mh_moe 42";
  using layer = MhMoe<6, 1, TwoStage<0, 6, 2, scaling::paper, loss::load_balance, loss::z>, FeedForward<3,
      activation::relu>, output_dropout<1, 4>, merge_bias, output_bias, padded, capacity<1, 2>,
      shared_expert<FeedForward<3>>, no_head>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .padded = true, .output_dropout = 0.25,
            .router = router_kind::two_stage, .experts = 5, .top_k = 2, .shared = 0, .routed = 6,
            .paper_scaling = true, .losses = {loss_kind::load_balance, loss_kind::z}, .split = 1, .head = false,
            .merge_bias = true, .expert = {.hidden = 3, .activation = activation_kind::relu},
            .shared_expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 42") { check<configuration_42>(); }

struct configuration_43 {
  static constexpr char const* name = "mh_moe 43";
  using layer = MhMoe<6, 3, SoftmaxTopK<5, 1, gating::detached, noise<number<0>>, sampled<1>, loss::z_with_padding,
      loss::head_balance_unscaled, loss::load_balance>, FeedForward<3, activation::relu>, capacity<1, 2>, head_bias,
      output_bias, output_dropout<1, 4>, shared_expert<FeedForward<5, activation::gelu>>, subtoken_residual,
      merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_bias = true, .output_dropout = 0.25,
            .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1, .noise = true, .noise_floor = 0,
            .sampled = 1, .losses = {loss_kind::z_with_padding, loss_kind::head_balance_unscaled,
            loss_kind::load_balance}, .split = 3, .head_bias = true, .merge_bias = true, .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::relu}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 43") { check<configuration_43>(); }

struct configuration_44 {
  static constexpr char const* name = "mh_moe 44";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 1, gating::raw, noise<number<0>>, init<fan_in_uniform>,
      loss::z_with_padding, loss::head_balance_unscaled, loss::load_balance>, FeedForward<3>, capacity<dynamic>,
      no_head, no_merge>;
  static layer_options options() {
    return {.family = family::mh_moe, .router = router_kind::softmax_top_k, .experts = 5, .top_k = 1,
            .gating = gating_kind::raw, .noise = true, .noise_floor = 0, .losses = {loss_kind::z_with_padding,
            loss_kind::head_balance_unscaled, loss_kind::load_balance}, .split = 1, .head = false, .merge = false,
            .expert = {.hidden = 3}, .capacity_rows = 3};
  }
};
TEST_CASE("definition: mh_moe 44") { check<configuration_44>(); }

struct configuration_45 {
  static constexpr char const* name = "mh_moe 45";
  using layer = MhMoe<6, 2, TwoStage<6, 0, 0, scaling::paper>, FeedForward<3, activation::gelu, weights::ternary>,
      output_dropout<1, 4>, shared_expert<FeedForward<3>>, no_merge, capacity<1, 2>>;
  static layer_options options() {
    return {.family = family::mh_moe, .output_dropout = 0.25, .router = router_kind::two_stage, .experts = 5,
            .top_k = 0, .shared = 6, .routed = 0, .paper_scaling = true, .losses = {}, .split = 2, .merge = false,
            .expert = {.hidden = 3, .activation = activation_kind::gelu, .ternary = true},
            .shared_expert = {.hidden = 3}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 45") { check<configuration_45>(); }

struct configuration_46 {
  static constexpr char const* name = "mh_moe 46";
  using layer = MhMoe<6, 1, TwoStage<2, 4, 1, scaling::paper, loss::cv_squared>, FeedForward<3, activation::gelu,
      weights::ternary>, head_bias, output_dropout<1, 4>, padded, merge_bias, shared_expert<FeedForward<4,
      activation::relu, weights::ternary>>, subtoken_residual>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 1, .shared = 2, .routed = 4, .paper_scaling = true,
            .losses = {loss_kind::cv_squared}, .split = 1, .head_bias = true, .merge_bias = true, .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu, .ternary = true},
            .shared_expert = {.hidden = 4, .activation = activation_kind::relu, .ternary = true}};
  }
};
TEST_CASE("definition: mh_moe 46") { check<configuration_46>(); }

struct configuration_47 {
  static constexpr char const* name = "mh_moe 47";
  using layer = MhMoe<6, 3, TwoStage<1, 5, 2, scaling::paper>, FeedForward<3, activation::relu>, capacity<1, 2>,
      shared_expert<FeedForward<5, activation::gelu>>, no_merge, subtoken_residual, output_dropout<1, 4>, no_head,
      padded>;
  static layer_options options() {
    return {.family = family::mh_moe, .padded = true, .output_dropout = 0.25, .router = router_kind::two_stage,
            .experts = 5, .top_k = 2, .shared = 1, .routed = 5, .paper_scaling = true,
            .losses = {loss_kind::head_balance}, .split = 3, .head = false, .merge = false, .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::relu}, .shared_expert = {.hidden = 5,
            .activation = activation_kind::gelu}, .capacity = 0.5};
  }
};
TEST_CASE("definition: mh_moe 47") { check<configuration_47>(); }

}  // namespace headmix::definition::mh_moe_5
