// SPDX-License-Identifier: MIT
// AdamW against numbers calculated by hand, and its schedule.

#include "headmix/train/adamw.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "headmix/train/schedule.hpp"

using namespace headmix;
using doctest::Approx;

namespace {

/// A [count, rows, cols] parameter over two arrays.
template <class T>
parameter<T> whole(std::vector<T>& value, std::vector<T>& gradient, Index count, Index rows, Index cols) {
  return {"w", view<T>(value.data(), count, rows, cols), view<T>(gradient.data(), count, rows, cols)};
}

}  // namespace

TEST_CASE("adamw: the first step moves by the rate, against the sign of the gradient") {
  // m / (1 - beta1) = g and sqrt(v / (1 - beta2)) = |g| for any betas.
  std::vector<double> w{1, 1, 1}, g{0.5, -3, 0};
  AdamW<double> optimiser({whole(w, g, 1, 1, 3)}, {.beta1 = 0.7, .beta2 = 0.9, .eps = 0});
  g[2] = 1e-3;
  optimiser.step(0.01);
  CHECK(w[0] == Approx(0.99).epsilon(1e-14));
  CHECK(w[1] == Approx(1.01).epsilon(1e-14));
  CHECK(w[2] == Approx(0.99).epsilon(1e-14));
  CHECK(optimiser.steps() == 1);
}

TEST_CASE("adamw: two steps by hand") {
  // beta1 = 1/2, beta2 = 3/4, eps = 1, no decay. Gradients 2, then 4.
  // t = 1: m = 1, v = 1; m / (1/2) = 2, sqrt(v / (1/4)) = 2, step 2 / (2 + 1) = 2/3.
  // t = 2: m = 1/2 + 2 = 5/2, v = 3/4 + 4 = 19/4; m / (3/4) = 10/3, sqrt(v / (7/16)) = sqrt(76/7).
  std::vector<double> w{1}, g{2};
  AdamW<double> optimiser({whole(w, g, 1, 1, 1)}, {.beta1 = 0.5, .beta2 = 0.75, .eps = 1});
  optimiser.step(0.3);
  CHECK(w[0] == Approx(0.8).epsilon(1e-14));
  g[0] = 4;
  optimiser.step(0.3);
  CHECK(w[0] == Approx(0.8 - 0.3 * (10.0 / 3) / (std::sqrt(76.0 / 7) + 1)).epsilon(1e-14));
}

TEST_CASE("adamw: a constant gradient moves by the rate at every step, thanks to the correction of the bias") {
  std::vector<float> w{0}, g{-0.25F};
  AdamW<float> optimiser({whole(w, g, 1, 1, 1)});
  for (int t = 1; t <= 50; ++t) {
    optimiser.step(1e-2);
    CHECK(w[0] == Approx(0.01 * t).epsilon(1e-5));
  }
}

TEST_CASE("adamw: eps is added to the corrected root") {
  std::vector<double> w{0}, g{1e-8};
  AdamW<double> optimiser({whole(w, g, 1, 1, 1)}, {.eps = 1e-8});
  optimiser.step(1);
  CHECK(w[0] == Approx(-0.5).epsilon(1e-12));
}

TEST_CASE("adamw: weight decay is decoupled, and for matrices and stacks of matrices only") {
  std::vector<double> zero(12, 0.0);
  auto const after = [&zero](Index count, Index rows, Index cols) {
    std::vector<double> w(12, 2.0);
    AdamW<double> optimiser({whole(w, zero, count, rows, cols)}, {.weight_decay = 0.5});
    optimiser.step(0.1);
    for (double const e : w) CHECK(e == w[0]);
    return w[0];
  };
  CHECK(after(1, 3, 4) == Approx(2 * (1 - 0.1 * 0.5)).epsilon(1e-15));
  CHECK(after(3, 2, 2) == Approx(2 * (1 - 0.1 * 0.5)).epsilon(1e-15));
  CHECK(after(1, 1, 12) == 2);
  CHECK(after(1, 12, 1) == 2);
  CHECK(after(3, 1, 4) == 2);  // a stack of vectors
}

TEST_CASE("adamw: the decay multiplies the value from before the step") {
  std::vector<double> w{1, 2, 3, 4}, g{1, 1, -1, -1};
  AdamW<double> optimiser({whole(w, g, 1, 2, 2)}, {.eps = 0, .weight_decay = 0.1});
  optimiser.step(0.2);
  CHECK(w[0] == Approx(1 - 0.2 * (1 + 0.1 * 1)).epsilon(1e-14));
  CHECK(w[1] == Approx(2 - 0.2 * (1 + 0.1 * 2)).epsilon(1e-14));
  CHECK(w[2] == Approx(3 - 0.2 * (-1 + 0.1 * 3)).epsilon(1e-14));
  CHECK(w[3] == Approx(4 - 0.2 * (-1 + 0.1 * 4)).epsilon(1e-14));
}

TEST_CASE("adamw: every parameter has its own moments, in one step or alone") {
  std::vector<double> a{1, 2, 3, 4, 5, 6}, b{7, 8, 9}, ga(6), gb(3);
  auto a2 = a, b2 = b;
  AdamW<double> both({whole(a, ga, 1, 2, 3), whole(b, gb, 1, 1, 3)});
  AdamW<double> first({whole(a2, ga, 1, 2, 3)}), second({whole(b2, gb, 1, 1, 3)});
  for (int t = 0; t < 5; ++t) {
    std::iota(ga.begin(), ga.end(), t - 3.0);
    std::iota(gb.begin(), gb.end(), 2.0 - t);
    both.step(0.05, 0.5);
    first.step(0.05, 0.5);
    second.step(0.05, 0.5);
  }
  CHECK(a == a2);
  CHECK(b == b2);
}

TEST_CASE("adamw: the gradient scale is the same as scaled gradients") {
  std::vector<double> w{1, 2, 3, 4}, g{1, -2, 3, -4}, w2 = w, g2{0.25, -0.5, 0.75, -1};
  AdamW<double> scaled({whole(w, g, 1, 2, 2)}, {.eps = 0.1}), plain({whole(w2, g2, 1, 2, 2)}, {.eps = 0.1});
  scaled.step(0.1, 0.25);
  plain.step(0.1);
  CHECK(w == w2);
}

TEST_CASE("adamw: minimises a quadratic bowl") {
  std::vector<float> w{3, -2, 0.5F, 1}, g(4);
  std::vector<float> const target{1, 1, -1, 0};
  AdamW<float> optimiser({whole(w, g, 1, 2, 2)}, {.weight_decay = 0});
  for (int t = 0; t < 2000; ++t) {
    for (std::size_t i = 0; i < 4; ++i) g[i] = 2 * (w[i] - target[i]);
    optimiser.step(warmup_cosine(t, 100, 2000, 0.05, 0));
  }
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(w[i] - target[i]) < 1e-3F);
}

TEST_CASE("adamw: parameters of bfloat16 are master weights in float, rounded") {
  std::vector<float> w = {1, -0.7f, 3}, g = {1, -2, 0.01f};
  std::vector<bfloat16> narrow_w, narrow_g;
  for (auto& x : w) narrow_w.emplace_back(x), x = static_cast<float>(narrow_w.back());
  for (auto& x : g) narrow_g.emplace_back(x), x = static_cast<float>(narrow_g.back());
  AdamW<float> wide({whole(w, g, 1, 1, 3)});
  AdamW<bfloat16> narrow({whole(narrow_w, narrow_g, 1, 1, 3)});
  for (int step = 0; step < 100; ++step) {
    wide.step(1e-4);  // a step is a fortieth of the distance between two numbers near 1
    narrow.step(1e-4);
    CHECK(narrow.clip_scale(0.1) == wide.clip_scale(0.1));
    for (std::size_t i = 0; i < 3; ++i) CHECK(narrow_w[i] == bfloat16(w[i]));
  }
  CHECK(std::abs(w[0] - 0.99f) < 1e-4f);
  auto const state = narrow.state();
  REQUIRE(state.size() == 3);
  CHECK(state[2].name.starts_with("weight."));
  CHECK(state[2].value(0, 1) == w[1]);
  // A write to a parameter counts after the optimiser is informed.
  narrow_w[0] = bfloat16(2.f);
  narrow.parameters_changed();
  narrow.step(1e-4);
  CHECK(narrow_w[0] == bfloat16(2.f));
  CHECK(std::abs(narrow.state()[2].value(0, 0) - 1.9999f) < 1e-5f);
}
TEST_CASE("adamw: parameters of bfloat16 that are rounded at random move as floats do on average") {
  std::vector<bfloat16> w(2000, bfloat16(1.f)), g(2000, bfloat16(1.f));
  AdamW<bfloat16> optimiser({whole(w, g, 1, 1, 2000)}, {.narrow = narrow_parameters::stochastic_rounding, .seed = 3});
  for (int step = 0; step < 50; ++step) optimiser.step(1e-4);
  double sum = 0;
  for (auto const x : w) sum += static_cast<double>(x);
  CHECK(std::abs(sum / 2000 - 0.995) < 3e-4);
  CHECK(optimiser.state().size() == 2);
  // A non-finite number stays non-finite.
  g[0] = bfloat16(std::numeric_limits<float>::quiet_NaN());
  optimiser.step(1e-4);
  CHECK(std::isnan(static_cast<float>(w[0])));
}
TEST_CASE("adamw: a parameter it cannot update is named, with both extents") {
  std::vector<float> w(6), g(6);
  parameter<float> p{"block.W_q", view<float>(w.data(), 2, 3), view<float>(g.data(), 3, 2)};
  CHECK_THROWS_WITH_AS(AdamW<float>({p}),
                       "headmix: AdamW: the gradient of block.W_q: expected the extents of its value, [1, 2, 3], "
                       "found [1, 3, 2]",
                       Error);
  p.value = view<float>(w.data(), 3, 2).transposed();
  p.gradient = view<float>(g.data(), 2, 3);
  CHECK_THROWS_WITH_AS(AdamW<float>({p}),
                       "headmix: AdamW: block.W_q: expected a contiguous value and gradient, found gaps or a transpose",
                       Error);
  p.value = view<float>(nullptr, 2, 3);
  CHECK_THROWS_WITH_AS(AdamW<float>({p}),
                       "headmix: AdamW: block.W_q: expected memory for value and gradient, found a null pointer",
                       Error);
  p.value = p.gradient = view<float>(nullptr, 0, 3);
  CHECK_NOTHROW(AdamW<float>({p}).step(0.1));
}

TEST_CASE_TEMPLATE("clip_scale: the norm is over all gradients together", T, float, double) {
  std::vector<T> w(37), g(37), w2(1), g2{4};
  g[36] = 3;  // the remainder of the blocked sum, too
  std::vector<parameter<T>> const p{whole(w, g, 1, 1, 37), whole(w2, g2, 1, 1, 1)};
  CHECK(gradient_norm(p) == 5);
  CHECK(clip_scale(p, 1.0) == Approx(0.2).epsilon(1e-15));
  CHECK(clip_scale(p, 5.0) == 1);
  CHECK(clip_scale(p, 100.0) == 1);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<T>(i % 2 == 0 ? 1 : -1);
  CHECK(clip_scale(p, 1.0) == Approx(1 / std::sqrt(37.0 + 16)).epsilon(1e-15));
  AdamW<T> optimiser(p);
  CHECK(optimiser.gradient_norm() == gradient_norm(p));
  CHECK(optimiser.clip_scale(1.0) == clip_scale(p, 1.0));
  g2[0] = std::numeric_limits<T>::quiet_NaN();
  CHECK(clip_scale(p, 1.0) == 1);
  CHECK(std::isnan(gradient_norm(p)));
  g2[0] = -std::numeric_limits<T>::infinity();
  CHECK(std::isinf(optimiser.gradient_norm()));
}

TEST_CASE("clip_scale: gradients near the largest float do not overflow") {
  std::vector<float> w(4), g(4, 3e38F);
  CHECK(clip_scale<float>({whole(w, g, 1, 2, 2)}, 1.0) == Approx(1 / 6e38).epsilon(1e-6));
}

TEST_CASE("zero_gradients: all of them, and no value") {
  std::vector<double> w{1, 2, 3}, g{4, 5, 6}, w2{7}, g2{8};
  zero_gradients<double>({whole(w, g, 3, 1, 1), whole(w2, g2, 1, 1, 1)});
  CHECK(g == std::vector<double>{0, 0, 0});
  CHECK(g2 == std::vector<double>{0});
  CHECK(w == std::vector<double>{1, 2, 3});
  CHECK(w2 == std::vector<double>{7});
}

TEST_CASE("warmup_cosine: ends, middle and monotony") {
  CHECK(warmup_cosine(0, 100, 2000, 1e-3, 1e-4) == Approx(1e-5).epsilon(1e-14));
  CHECK(warmup_cosine(49, 100, 2000, 1e-3, 1e-4) == Approx(5e-4).epsilon(1e-14));
  CHECK(warmup_cosine(99, 100, 2000, 1e-3, 1e-4) == 1e-3);
  CHECK(warmup_cosine(1049, 100, 2000, 1e-3, 1e-4) == Approx(5.5e-4).epsilon(1e-14));
  CHECK(warmup_cosine(1999, 100, 2000, 1e-3, 1e-4) == 1e-4);
  CHECK(warmup_cosine(5000, 100, 2000, 1e-3, 1e-4) == 1e-4);
  for (Index s = 1; s < 100; ++s)
    CHECK(warmup_cosine(s, 100, 2000, 1e-3, 1e-4) > warmup_cosine(s - 1, 100, 2000, 1e-3, 1e-4));
  for (Index s = 100; s < 2000; ++s)
    CHECK(warmup_cosine(s, 100, 2000, 1e-3, 1e-4) < warmup_cosine(s - 1, 100, 2000, 1e-3, 1e-4));
}

TEST_CASE("warmup_cosine: no warm-up, nothing but warm-up, a single step") {
  CHECK(warmup_cosine(0, 0, 4, 2.0, 1.0) == Approx(1.5 + 0.5 * std::sqrt(0.5)).epsilon(1e-14));
  CHECK(warmup_cosine(3, 0, 4, 2.0, 1.0) == 1);
  CHECK(warmup_cosine(4, 100, 5, 2.0, 1.0) == Approx(0.1).epsilon(1e-14));
  CHECK(warmup_cosine(0, 0, 1, 2.0, 1.0) == 1);
}
