// SPDX-License-Identifier: MIT
// Averages of parameters: means and exponential moving averages by hand, in checkpoints, of bfloat16 modules.

#include "headmix/train/parameter_average.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../error_of.hpp"
#include "../io/files.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/io/checkpoint.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

namespace parameter_average_test {

using namespace headmix;
using namespace headmix::test;
using doctest::Approx;

namespace {

using L = MultiHead<8, 2, 4, causal>;
static_assert(StatefulOptimiser<ParameterAverage<float>> && StatefulOptimiser<ParameterAverage<bfloat16>>);

/// All parameters of a module, as doubles.
template <class M>
std::vector<double> values(M const& m) {
  std::vector<double> all;
  for (auto const& p : m.parameters())
    for (Index i = 0; i < p.value.size(); ++i) all.push_back(static_cast<double>(p.value.data[i]));
  return all;
}
/// Sets parameter i of a module to f(i).
template <class M, class F>
void set(M& m, F f) {
  Index n = 0;
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i)
      p.value.data[i] = static_cast<typename M::scalar>(static_cast<float>(f(n++)));
  }
}

}  // namespace

TEST_CASE("parameter average: the mean of the parameters at each update") {
  Module<L, Cpu<double>> m(1), other(2);
  ParameterAverage<double, Cpu<double>> mean(m.parameters(), m.backend());
  auto const start = values(m);
  mean.copy_to(other);
  CHECK(values(other) == start);
  for (int k = 1; k <= 10; ++k) {
    set(m, [&](Index i) { return k * k + i % 3; });
    mean.update();
  }
  mean.copy_to(other);
  auto const found = values(other);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(38.5 + static_cast<double>(i % 3)));
  CHECK(mean.steps() == 10);
  CHECK(values(m)[1] == 101);  // the training's parameters are untouched
}
TEST_CASE("parameter average: EMA from the present values on") {
  Module<L, Cpu<double>> m(1);
  set(m, [](Index) { return 8; });
  ParameterAverage<double> ema(m.parameters(), 0.75);
  double expected = 8;
  for (int k = 0; k < 5; ++k) {
    set(m, [&](Index) { return k; });
    ema.update();
    expected = 0.75 * expected + 0.25 * k;
  }
  ema.copy_to(m);
  for (double const v : values(m)) CHECK(v == Approx(expected).epsilon(1e-14));
  ParameterAverage<double> last(m.parameters(), 0.0);  // decay 0: the latest values
  set(m, [](Index i) { return i; });
  last.update();
  set(m, [](Index) { return -1; });
  last.copy_to(m);
  CHECK(values(m)[5] == 5);
}
TEST_CASE("parameter average: of a bfloat16 module in float") {
  // Steps of 2^-9 and less would vanish in bfloat16 beside 1.
  Module<L, Cpu<bfloat16>> m(1);
  set(m, [](Index) { return 1; });
  ParameterAverage<bfloat16, Cpu<bfloat16>> ema(m.parameters(), 0.999, m.backend());
  set(m, [](Index) { return 2; });
  for (int k = 0; k < 1000; ++k) ema.update();
  double const expected = 2 - std::pow(0.999, 1000);
  for (auto const& s : ema.state()) CHECK(static_cast<double>(s.value.data[0]) == Approx(expected).epsilon(1e-4));
  Module<L, Cpu<bfloat16>, inference> evaluated(2);
  ema.copy_to(evaluated);
  for (double const v : values(evaluated)) CHECK(v == static_cast<double>(bfloat16(static_cast<float>(expected))));
}
TEST_CASE("parameter average: the last checkpoints of a training, and an EMA that resumes with the same bits") {
  Folder folder;
  auto const path = [&](int k) { return folder / (std::to_string(k) + ".safetensors"); };
  Module<L, Cpu<float>> m(1);
  ParameterAverage<float> ema(m.parameters(), 0.9);
  auto const step = [](Module<L, Cpu<float>>& trained, int k) {
    set(trained, [&](Index i) { return k + 0.1 * static_cast<double>(i); });
  };
  for (int k = 1; k <= 4; ++k) {
    step(m, k);
    ema.update();
    save(path(k), m, ema);
  }
  Module<L, Cpu<float>> resumed(2);
  ParameterAverage<float> resumed_ema(resumed.parameters(), 0.9);
  load(path(3), resumed, resumed_ema);
  step(resumed, 4);
  resumed_ema.update();
  auto const expected = ema.state(), found = resumed_ema.state();
  REQUIRE(found.size() == 4);
  CHECK(found[0].name == "average." + std::string(m.parameters()[0].name));
  for (std::size_t p = 0; p < found.size(); ++p)
    for (Index i = 0; i < found[p].value.size(); ++i) CHECK(found[p].value.data[i] == expected[p].value.data[i]);
  CHECK(resumed_ema.steps() == 4);
  // MoA: the mean of the last checkpoints.
  ParameterAverage<float> mean(resumed.parameters());
  for (int const k : {2, 3, 4}) load(path(k), resumed), mean.update();
  mean.copy_to(resumed);
  auto const all = values(resumed);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == Approx(3 + 0.1 * static_cast<double>(i)).epsilon(1e-6));
}
TEST_CASE("parameter average: errors name the setting and the parameter, and nothing is written") {
  Module<L, Cpu<float>> m(1);
  for (double const decay : {-0.5, 1.0, std::nan("")}) {
    CHECK(says(error_of([&] { ParameterAverage<float>(m.parameters(), decay); }),
               "ParameterAverage: decay: expected at least 0 and less than 1, found "));
  }
  ParameterAverage<float> mean(m.parameters());
  CHECK(says(error_of([&] { mean.set_steps(-1); }), "ParameterAverage: set_steps(): expected at least 0, found -1"));
  Module<MultiHead<8, 4, 4, causal>, Cpu<float>> wide(2);
  auto const before = values(wide);
  CHECK(says(error_of([&] { mean.copy_to(wide); }),
             "ParameterAverage: copy_to(): expected the parameter W_q [1, 8, 8], found W_q [1, 8, 16]"));
  CHECK(values(wide) == before);
  Module<MultiHead<8, 2, 4, causal, query_bias>, Cpu<float>> more(2);
  CHECK(says(error_of([&] { mean.copy_to(more); }), "expected 4 parameters, found 5"));
}

}  // namespace parameter_average_test
