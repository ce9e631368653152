// SPDX-License-Identifier: MIT
// Invalid settings of trainings: errors that name them, before anything is updated.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"
#include "headmix/router/loss_free_top_k.hpp"
#include "headmix/train/adamw.hpp"
#include "headmix/train/block_coordinate.hpp"
#include "headmix/train/schedule.hpp"
#include "headmix/train/selection_bias.hpp"
#include "headmix/train/sgd.hpp"

namespace settings_test {

using namespace headmix;
using namespace headmix::test;

namespace {
using L = Moa<4, 2, LossFreeTopK<3, 2>, causal>;
constexpr double infinite = std::numeric_limits<double>::infinity();
double const not_a_number = std::nan("");

struct trained {
  trained() {
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i) * 0.1f;
    m.forward({x, 4, 4});
    m.backward({x, 4, 4});
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (auto const& p : m.parameters()) all.insert(all.end(), p.value.data, p.value.data + p.value.size());
    return all;
  }
  float x[16];
  Module<L, Cpu<float>> m{1};
};
}  // namespace

TEST_CASE("settings: of AdamW") {
  trained const t;
  auto const error = [&](AdamWOptions const& o) { return error_of([&] { AdamW<float>(t.m.parameters(), o); }); };
  for (double const x : {not_a_number, infinite, -0.5}) {
    CHECK(says(error({.beta1 = x}), "AdamW: beta1: expected at least 0 and less than 1, found "));
    CHECK(says(error({.beta2 = x}), "AdamW: beta2: expected at least 0 and less than 1, found "));
    CHECK(says(error({.eps = x}), "AdamW: eps: expected a finite number of at least 0, found "));
    CHECK(says(error({.weight_decay = x}), "AdamW: weight_decay: expected a finite number of at least 0, found "));
  }
  CHECK(says(error({.beta1 = 1}), "beta1"));
  CHECK(says(error({.beta2 = 1}), "beta2"));
  CHECK(error({.beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0}).empty());
  CHECK(
      says(error({.narrow = static_cast<narrow_parameters>(7)}), "narrow_parameters: expected one of its enumerators"));
}
TEST_CASE("settings: parameters that optimisers cannot move") {
  alignas(float) std::byte memory[64] = {};
  auto const at_byte = [&](std::size_t n) { return view<float>(reinterpret_cast<float*>(memory + n), 2, 3); };
  auto const refused = [](view<float> const& value, view<float> const& gradient, char const* text) {
    std::vector<parameter<float>> const all{{"block.W_q", value, gradient}};
    CHECK(says(error_of([&] { AdamW<float> const o(all); }), (std::string("AdamW: ") + text).c_str()));
    CHECK(says(error_of([&] { Sgd<float> const o(all); }), (std::string("Sgd: ") + text).c_str()));
  };
  view<float> const good = at_byte(0), null(nullptr, 2, 3);
  refused(good, view<float>(good.data, 3, 2),
          "the gradient of block.W_q: expected the extents of its value, [1, 2, 3], found [1, 3, 2]");
  refused(good, view<float>(good.data, 3, 2).transposed(), "block.W_q: expected a contiguous value and gradient");
  refused(good, null, "block.W_q: expected memory for value and gradient, found a null pointer");
  refused(null, good, "block.W_q: expected memory for value and gradient, found a null pointer");
  refused(at_byte(1), good, "block.W_q: expected memory aligned to 4 bytes");
  refused(good, at_byte(2), "the gradient of block.W_q: expected memory aligned to 4 bytes");
}
TEST_CASE("settings: of steps") {
  trained const t;
  AdamW<float> adamw(t.m.parameters());
  Sgd<float> sgd(t.m.parameters());
  auto const before = t.values();
  for (double const x : {not_a_number, infinite, -infinite, -1.0}) {
    CHECK(says(error_of([&] { adamw.step(x); }), "AdamW: the rate: expected a finite number of at least 0, found "));
    CHECK(says(error_of([&] { sgd.step(x); }), "Sgd: the rate: expected a finite number of at least 0, found "));
  }
  for (double const x : {not_a_number, infinite}) {
    CHECK(says(error_of([&] { adamw.step(0.1, x); }), "AdamW: gradient_scale: expected a finite number, found "));
  }
  for (double const x : {not_a_number, -1.0}) {
    CHECK(says(error_of([&] { static_cast<void>(adamw.clip_scale(x)); }), "clip_scale: expected a norm of at least 0"));
  }
  CHECK(adamw.clip_scale(infinite) == 1);
  CHECK(says(error_of([&] { adamw.set_steps(-5); }), "AdamW: set_steps(): expected at least 0, found -5"));
  CHECK(says(error_of([&] { sgd.set_steps(-5); }), "Sgd: set_steps(): expected at least 0, found -5"));
  CHECK((adamw.steps() == 0 && sgd.steps() == 0));
  adamw.set_steps((std::numeric_limits<Index>::max)());
  CHECK(says(error_of([&] { adamw.step(0.1); }), "sizes are too large: "));
  CHECK(t.values() == before);
}
TEST_CASE("settings: of schedules, groups and balancing") {
  constexpr Index most = (std::numeric_limits<Index>::max)();
  CHECK(says(error_of([] { static_cast<void>(warmup_cosine(-1, 2, 10, 1, 0)); }), "found -1, 2 and 10"));
  CHECK(says(error_of([] { static_cast<void>(warmup_cosine(1, -2, 10, 1, 0)); }), "found 1, -2 and 10"));
  CHECK(says(error_of([] { static_cast<void>(warmup_cosine(1, 2, -10, 1, 0)); }), "found 1, 2 and -10"));
  CHECK(warmup_cosine(most, 2, 10, 1, 0.25) == 0.25);
  CHECK(warmup_cosine(0, 0, 0, 1, 0.25) == 0.25);
  CHECK(warmup_cosine(1, 2, 10, 1, 0.25) == 1);
  CHECK(warmup_cosine(9, 2, 10, 1, 0.25) == 0.25);
  CHECK(
      says(error_of([] { static_cast<void>(moved_by_f_steps(ParameterGroups<float>{}, static_cast<fine_tuning>(9))); }),
           "fine_tuning: expected one of its enumerators, found 9"));
  trained t;
  CHECK(says(error_of([&] { update_selection_bias<L::r::selection_bias>(t.m, not_a_number); }),
             "update_selection_bias: expected a finite rate"));
}
TEST_CASE("settings: weights of losses") {
  float const x[16] = {1, 2, 3, 4, 5, 6, 7, 8};
  Module<Moa<4, 2, SoftmaxTopK<3, 2>, causal>, Cpu<float>> m(1);
  m.forward({x, 4, 4});
  for (double const w : {not_a_number, infinite, 1e300}) {
    CHECK(says(error_of([&] { m.backward({x, 4, 4}, {0.1, w}); }), "backward(): expected a finite weight of loss 1"));
    CHECK(says(error_of([&] {
                 m.backward({x, 4, 4}, {{"load_balance", w}, {"z", 0.1}});
               }),
               "a finite weight of loss 0"));
  }
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.gradient.size(); ++i) REQUIRE(p.gradient.data[i] == 0);
  }
}

}  // namespace settings_test
