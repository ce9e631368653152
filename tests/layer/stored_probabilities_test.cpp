// SPDX-License-Identifier: MIT
// Modules whose backend stores the probabilities of attention for the gradient: equal results, and memory bounded by a
// budget.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/program/module.hpp"

namespace stored_probabilities_test {

namespace {

using namespace headmix;

constexpr Index width = 12, length = 40, sequences = 3;

struct Pass {
  std::vector<double> numbers;  ///< the result and all gradients
  std::size_t workspace;
};

template <class Layer, class Mode = training>
Pass run(Index budget) {
  Cpu<double> cpu;
  cpu.set_probability_budget(budget);
  Module<Layer, Cpu<double>, Mode> m(3, cpu);
  std::vector<double> x(sequences * length * width), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = Random(5).normal(i);
    dy[i] = Random(6).normal(i);
  }
  Pass pass{{}, 0};
  auto const add = [&](view<double const> const v) {
    pass.numbers.insert(pass.numbers.end(), v.data, v.data + v.size());
  };
  Index const rows = sequences * length;
  add(m.forward({x.data(), rows, width}, uniform(sequences, length)));
  if constexpr (!std::is_same_v<Mode, inference>) {
    m.backward({dy.data(), rows, width});
    add(m.input_gradient());
    for (auto const& p : m.parameters()) add(p.gradient);
  }
  pass.workspace = m.program().workspace_bytes();
  return pass;
}

template <class Layer>
void check(Index heads) {
  std::size_t const bytes = sequences * length * length * static_cast<std::size_t>(heads) * sizeof(double);
  Pass const without = run<Layer>(0), over = run<Layer>(static_cast<Index>(bytes)), within = run<Layer>(Index{1} << 20);
  CHECK(over.numbers == without.numbers);  // the keys alone fill the budget; rows are longer
  CHECK(over.workspace == without.workspace);
  CHECK(within.workspace >= without.workspace + bytes);
  REQUIRE(within.numbers.size() == without.numbers.size());
  bool same = true;
  for (std::size_t i = 0; i < within.numbers.size(); ++i)
    same = same && std::abs(within.numbers[i] - without.numbers[i]) <= 1e-12 * (1 + std::abs(without.numbers[i]));
  CHECK(same);
  CHECK(within.numbers != without.numbers);  // rounded differently: stored probabilities were used
  CHECK(run<Layer, inference>(Index{1} << 20).workspace == run<Layer, inference>(0).workspace);
}

TEST_CASE("stored probabilities: MoA") { check<Moa<width, 4, SoftmaxTopK<5, 2>, causal, kv_heads<2>>>(2 * 2); }
TEST_CASE("stored probabilities: MoH with some of the heads") { check<Moh<width, 4, TwoStage<1, 4, 2>>>(3); }

}  // namespace

}  // namespace stored_probabilities_test
