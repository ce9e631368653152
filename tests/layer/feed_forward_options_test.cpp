// SPDX-License-Identifier: MIT
// feed_forward_bias, hidden_dropout and activation::gelu_tanh of experts and shared experts with every other option of
// FeedForward, Smoe and MhMoe, against the loops of tests/definition: a covering array of pairs.

#include "../definition/check.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace headmix::definition::feed_forward_options_test {

struct configuration_0 {
  static constexpr char const* name = "feed-forward options 0";
  using layer = MhMoe<6, 3, TwoStage<1, 5, 2, loss::cv_squared>,
                      FeedForward<3, feed_forward_bias, activation::gelu_tanh, hidden_dropout<1, 4>>, merge_bias,
                      shared_expert<FeedForward<3, feed_forward_bias>>, capacity<dynamic>, output_dropout<1, 4>, padded,
                      output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .padded = true,
            .output_dropout = 0.25,
            .router = router_kind::two_stage,
            .experts = 5,
            .top_k = 2,
            .shared = 1,
            .routed = 5,
            .losses = {loss_kind::cv_squared},
            .split = 3,
            .merge_bias = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu_tanh, .bias = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 3, .bias = true},
            .capacity_rows = 3};
  }
};
TEST_CASE("feed-forward options against loops: 0") { check<configuration_0>(); }
TEST_CASE("feed-forward options against loops: 0, Cpu<double>") { check<configuration_0, Cpu<double>>(); }

struct configuration_1 {
  static constexpr char const* name = "feed-forward options 1";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 1, gating::renormalized, loss::first_choice_balance>,
                      FeedForward<3, feed_forward_bias, hidden_dropout<1, 4>, activation::gelu_tanh, weights::ternary>,
                      shared_expert<FeedForward<5, hidden_dropout<1, 4>, activation::gelu_tanh>>, subtoken_residual,
                      head_bias, no_merge, capacity<1, 2>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 1,
            .gating = gating_kind::renormalized,
            .losses = {loss_kind::first_choice_balance},
            .split = 1,
            .merge = false,
            .head_bias = true,
            .residual = true,
            .expert = {.hidden = 3,
                       .activation = activation_kind::gelu_tanh,
                       .ternary = true,
                       .bias = true,
                       .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu_tanh, .hidden_dropout = 0.25},
            .capacity = 0.5};
  }
};
TEST_CASE("feed-forward options against loops: 1") { check<configuration_1>(); }

struct configuration_2 {
  static constexpr char const* name = "feed-forward options 2";
  using layer =
      MhMoe<6, 2, LossFreeTopK<5, 2>, FeedForward<3, feed_forward_bias, hidden_dropout<1, 4>, activation::gelu_tanh>,
            shared_expert<FeedForward<4, weights::ternary, feed_forward_bias, hidden_dropout<1, 4>>>, merge_bias,
            subtoken_residual, capacity<1>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .router = router_kind::loss_free,
            .experts = 5,
            .top_k = 2,
            .split = 2,
            .merge_bias = true,
            .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu_tanh, .bias = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 4, .ternary = true, .bias = true, .hidden_dropout = 0.25},
            .capacity = 1};
  }
};
TEST_CASE("feed-forward options against loops: 2") { check<configuration_2>(); }

struct configuration_3 {
  static constexpr char const* name = "feed-forward options 3";
  using layer = Smoe<6, SoftmaxTopK<5, 2, gating::detached>,
                     FeedForward<3, weights::ternary, hidden_dropout<1, 4>, feed_forward_bias, activation::gelu_tanh>,
                     subtoken_residual, shared_expert<FeedForward<3, feed_forward_bias>>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 2,
            .losses = {loss_kind::load_balance, loss_kind::z},
            .split = 1,
            .head = false,
            .merge = false,
            .residual = true,
            .expert = {.hidden = 3,
                       .activation = activation_kind::gelu_tanh,
                       .ternary = true,
                       .bias = true,
                       .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 3, .bias = true}};
  }
};
TEST_CASE("feed-forward options against loops: 3") { check<configuration_3>(); }

struct configuration_4 {
  static constexpr char const* name = "feed-forward options 4";
  using layer = MhMoe<6, 2, SoftmaxTopK<5, 3, gating::raw, loss::cv_squared>, FeedForward<3, activation::gelu_tanh>,
                      shared_expert<FeedForward<5, hidden_dropout<1, 4>, activation::gelu_tanh>>, output_dropout<1, 4>,
                      padded, output_bias, no_head, capacity<1>, merge_bias>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .padded = true,
            .output_dropout = 0.25,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 3,
            .gating = gating_kind::raw,
            .losses = {loss_kind::cv_squared},
            .split = 2,
            .head = false,
            .merge_bias = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu_tanh},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu_tanh, .hidden_dropout = 0.25},
            .capacity = 1};
  }
};
TEST_CASE("feed-forward options against loops: 4") { check<configuration_4>(); }
TEST_CASE("feed-forward options against loops: 4, Cpu<double>") { check<configuration_4, Cpu<double>>(); }

struct configuration_5 {
  static constexpr char const* name = "feed-forward options 5";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 3, gating::raw, loss::cv_squared>,
                      FeedForward<3, hidden_dropout<1, 4>, weights::ternary, activation::gelu>, no_head, output_bias,
                      no_merge, padded, output_dropout<1, 4>, capacity<dynamic>,
                      shared_expert<FeedForward<4, weights::ternary, feed_forward_bias, hidden_dropout<1, 4>>>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .padded = true,
            .output_dropout = 0.25,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 3,
            .gating = gating_kind::raw,
            .losses = {loss_kind::cv_squared},
            .split = 1,
            .head = false,
            .merge = false,
            .expert = {.hidden = 3, .activation = activation_kind::gelu, .ternary = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 4, .ternary = true, .bias = true, .hidden_dropout = 0.25},
            .capacity_rows = 3};
  }
};
TEST_CASE("feed-forward options against loops: 5") { check<configuration_5>(); }

struct configuration_6 {
  static constexpr char const* name = "feed-forward options 6";
  using layer =
      MhMoe<6, 2, SoftmaxTopK<5, 3, gating::raw, loss::cv_squared>, FeedForward<3, weights::ternary, feed_forward_bias>,
            output_bias, shared_expert<FeedForward<3, feed_forward_bias>>, subtoken_residual, head_bias, capacity<1>,
            no_merge>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 3,
            .gating = gating_kind::raw,
            .losses = {loss_kind::cv_squared},
            .split = 2,
            .merge = false,
            .head_bias = true,
            .residual = true,
            .expert = {.hidden = 3, .ternary = true, .bias = true},
            .shared_expert = {.hidden = 3, .bias = true},
            .capacity = 1};
  }
};
TEST_CASE("feed-forward options against loops: 6") { check<configuration_6>(); }

struct configuration_7 {
  static constexpr char const* name = "feed-forward options 7";
  using layer =
      MhMoe<6, 3, SoftmaxTopK<5, 2, gating::detached>,
            FeedForward<3, activation::relu, weights::ternary, hidden_dropout<1, 4>, feed_forward_bias>, head_bias,
            output_dropout<1, 4>, merge_bias,
            shared_expert<FeedForward<4, weights::ternary, feed_forward_bias, hidden_dropout<1, 4>>>, capacity<1, 2>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_dropout = 0.25,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 2,
            .losses = {loss_kind::load_balance, loss_kind::z},
            .split = 3,
            .head_bias = true,
            .merge_bias = true,
            .expert = {.hidden = 3,
                       .activation = activation_kind::relu,
                       .ternary = true,
                       .bias = true,
                       .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 4, .ternary = true, .bias = true, .hidden_dropout = 0.25},
            .capacity = 0.5};
  }
};
TEST_CASE("feed-forward options against loops: 7") { check<configuration_7>(); }

struct configuration_8 {
  static constexpr char const* name = "feed-forward options 8";
  using layer = MhMoe<6, 1, SoftmaxTopK<5, 1, gating::renormalized, loss::first_choice_balance>,
                      FeedForward<3, activation::gelu, weights::ternary>, capacity<1, 2>, no_head, padded,
                      shared_expert<FeedForward<3, feed_forward_bias>>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .padded = true,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 1,
            .gating = gating_kind::renormalized,
            .losses = {loss_kind::first_choice_balance},
            .split = 1,
            .head = false,
            .expert = {.hidden = 3, .activation = activation_kind::gelu, .ternary = true},
            .shared_expert = {.hidden = 3, .bias = true},
            .capacity = 0.5};
  }
};
TEST_CASE("feed-forward options against loops: 8") { check<configuration_8>(); }
TEST_CASE("feed-forward options against loops: 8, Cpu<double>") { check<configuration_8, Cpu<double>>(); }

struct configuration_9 {
  static constexpr char const* name = "feed-forward options 9";
  using layer =
      MhMoe<6, 3, LossFreeTopK<5, 2>, FeedForward<3, feed_forward_bias, activation::gelu>, no_head, subtoken_residual,
            output_bias, merge_bias, shared_expert<FeedForward<5, hidden_dropout<1, 4>, activation::gelu_tanh>>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .router = router_kind::loss_free,
            .experts = 5,
            .top_k = 2,
            .split = 3,
            .head = false,
            .merge_bias = true,
            .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::gelu, .bias = true},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu_tanh, .hidden_dropout = 0.25}};
  }
};
TEST_CASE("feed-forward options against loops: 9") { check<configuration_9>(); }

struct configuration_10 {
  static constexpr char const* name = "feed-forward options 10";
  using layer = Smoe<6, TwoStage<1, 5, 2, loss::cv_squared>, FeedForward<3, weights::ternary, hidden_dropout<1, 4>>,
                     shared_expert<FeedForward<5, hidden_dropout<1, 4>, activation::gelu_tanh>>, output_dropout<1, 4>,
                     padded, capacity<dynamic>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .padded = true,
            .output_dropout = 0.25,
            .router = router_kind::two_stage,
            .experts = 5,
            .top_k = 2,
            .shared = 1,
            .routed = 5,
            .losses = {loss_kind::cv_squared},
            .split = 1,
            .head = false,
            .merge = false,
            .expert = {.hidden = 3, .ternary = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu_tanh, .hidden_dropout = 0.25},
            .capacity_rows = 3};
  }
};
TEST_CASE("feed-forward options against loops: 10") { check<configuration_10>(); }

struct configuration_11 {
  static constexpr char const* name = "feed-forward options 11";
  using layer =
      Smoe<6, SoftmaxTopK<5, 1, gating::renormalized, loss::first_choice_balance>, FeedForward<3>, subtoken_residual,
           shared_expert<FeedForward<4, weights::ternary, feed_forward_bias, hidden_dropout<1, 4>>>, output_bias>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 1,
            .gating = gating_kind::renormalized,
            .losses = {loss_kind::first_choice_balance},
            .split = 1,
            .head = false,
            .merge = false,
            .residual = true,
            .expert = {.hidden = 3},
            .shared_expert = {.hidden = 4, .ternary = true, .bias = true, .hidden_dropout = 0.25}};
  }
};
TEST_CASE("feed-forward options against loops: 11") { check<configuration_11>(); }

struct configuration_12 {
  static constexpr char const* name = "feed-forward options 12";
  using layer = MhMoe<6, 3, LossFreeTopK<5, 2>,
                      FeedForward<3, feed_forward_bias, hidden_dropout<1, 4>, weights::ternary, activation::gelu_tanh>,
                      subtoken_residual, head_bias, no_merge, padded, capacity<1>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .padded = true,
            .router = router_kind::loss_free,
            .experts = 5,
            .top_k = 2,
            .split = 3,
            .merge = false,
            .head_bias = true,
            .residual = true,
            .expert = {.hidden = 3,
                       .activation = activation_kind::gelu_tanh,
                       .ternary = true,
                       .bias = true,
                       .hidden_dropout = 0.25},
            .capacity = 1};
  }
};
TEST_CASE("feed-forward options against loops: 12") { check<configuration_12>(); }
TEST_CASE("feed-forward options against loops: 12, Cpu<double>") { check<configuration_12, Cpu<double>>(); }

struct configuration_13 {
  static constexpr char const* name = "feed-forward options 13";
  using layer =
      MhMoe<6, 3, LossFreeTopK<5, 2>, FeedForward<3, weights::ternary, hidden_dropout<1, 4>, activation::relu>,
            capacity<dynamic>, output_dropout<1, 4>, output_bias, shared_expert<FeedForward<3, feed_forward_bias>>,
            subtoken_residual, no_head>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .output_dropout = 0.25,
            .router = router_kind::loss_free,
            .experts = 5,
            .top_k = 2,
            .split = 3,
            .head = false,
            .residual = true,
            .expert = {.hidden = 3, .activation = activation_kind::relu, .ternary = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 3, .bias = true},
            .capacity_rows = 3};
  }
};
TEST_CASE("feed-forward options against loops: 13") { check<configuration_13>(); }

struct configuration_14 {
  static constexpr char const* name = "feed-forward options 14";
  using layer =
      MhMoe<6, 3, SoftmaxTopK<5, 2, gating::detached>,
            FeedForward<3, feed_forward_bias, activation::relu, hidden_dropout<1, 4>>, no_merge, head_bias, padded,
            output_bias, capacity<dynamic>, shared_expert<FeedForward<5, hidden_dropout<1, 4>, activation::gelu_tanh>>>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .padded = true,
            .router = router_kind::softmax_top_k,
            .experts = 5,
            .top_k = 2,
            .losses = {loss_kind::load_balance, loss_kind::z},
            .split = 3,
            .merge = false,
            .head_bias = true,
            .expert = {.hidden = 3, .activation = activation_kind::relu, .bias = true, .hidden_dropout = 0.25},
            .shared_expert = {.hidden = 5, .activation = activation_kind::gelu_tanh, .hidden_dropout = 0.25},
            .capacity_rows = 3};
  }
};
TEST_CASE("feed-forward options against loops: 14") { check<configuration_14>(); }

struct configuration_15 {
  static constexpr char const* name = "feed-forward options 15";
  using layer = MhMoe<6, 2, TwoStage<1, 5, 2, loss::cv_squared>, FeedForward<3>, merge_bias,
                      shared_expert<FeedForward<4, weights::ternary, feed_forward_bias, hidden_dropout<1, 4>>>,
                      subtoken_residual, capacity<1, 2>, output_bias, head_bias>;
  static layer_options options() {
    return {.family = family::mh_moe,
            .output_bias = true,
            .router = router_kind::two_stage,
            .experts = 5,
            .top_k = 2,
            .shared = 1,
            .routed = 5,
            .losses = {loss_kind::cv_squared},
            .split = 2,
            .head_bias = true,
            .merge_bias = true,
            .residual = true,
            .expert = {.hidden = 3},
            .shared_expert = {.hidden = 4, .ternary = true, .bias = true, .hidden_dropout = 0.25},
            .capacity = 0.5};
  }
};
TEST_CASE("feed-forward options against loops: 15") { check<configuration_15>(); }

/// Packed weights have the results of ternary ones, whose gradients they lack.
template <class... Options>
void check_packed() {
  using R = SoftmaxTopK<4, 2>;
  using Ternary = MhMoe<12, 2, R, FeedForward<7, weights::ternary, Options...>,
                        shared_expert<FeedForward<5, weights::ternary, Options...>>>;
  using Packed = MhMoe<12, 2, R, FeedForward<7, weights::packed, Options...>,
                       shared_expert<FeedForward<5, weights::packed, Options...>>>;
  Module<Ternary, Reference<double>, inference> trained(3);
  for (auto const& p : trained.parameters()) {
    auto const v = drawn(std::string(p.name), p.value.size(), 0.8, 1);
    std::copy(v.begin(), v.end(), p.value.data);
  }
  Module<Packed, Cpu<double>, inference> packed(4);
  copy_parameters(trained, packed);
  auto const x = drawn("x", 9 * 12, 1.5, 2);
  trained.set_randomness(randomness(5)), packed.set_randomness(randomness(5));
  auto const expected = trained.forward({x.data(), 9, 12}), found = packed.forward({x.data(), 9, 12});
  for (Index i = 0; i < found.size(); ++i) CHECK(std::abs(found.data[i] - expected.data[i]) < 1e-12);
}
TEST_CASE("feed-forward options: packed weights") {
  check_packed<feed_forward_bias, activation::gelu_tanh>();
  check_packed<feed_forward_bias, hidden_dropout<1, 4>>();
}

}  // namespace headmix::definition::feed_forward_options_test
