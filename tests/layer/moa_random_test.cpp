// SPDX-License-Identifier: MIT
// MoA with noise and dropout: gradients, and the draws of a module.

#include "../test_program.hpp"
#include "headmix/layer/moa.hpp"

namespace moa_random_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa options: gradients with noise and both dropouts") {
  using L = Moa<6, 4, NoisyTopK<5, 2>, probability_dropout<1, 4>, output_dropout<1, 5>>;
  auto const r = gradcheck(L::y, at<tokens>(7));
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("moa options: a module draws anew at every pass, not at all when told, and alike for a part of the batch") {
  using L = Moa<6, 4, NoisyTopK<5, 2>, output_dropout<1, 5>>;
  Module<L, Reference<double>> m(1);
  std::vector<double> x(36);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  auto const run = [&](Index first, Index rows) {
    auto const y = m.forward({x.data() + first * 6, rows, 6}, uniform(rows / 3, 3));
    return std::vector<double>(y.data, y.data + y.size());
  };
  auto const one = run(0, 6), two = run(0, 6);
  CHECK(one != two);
  m.set_randomness(randomness(5, 1));
  auto const whole = run(0, 6);
  CHECK(run(0, 6) == whole);
  m.set_randomness(randomness(5, 1, 0, 3));
  CHECK(run(3, 3) == std::vector<double>(whole.begin() + 18, whole.end()));
  m.set_randomness(randomness::off());
  auto const still = run(0, 6);
  CHECK(still != whole);
  Module<L, Reference<double>, inference> evaluate(1);
  auto const y = evaluate.forward({x.data(), 6, 6}, uniform(2, 3));
  CHECK(std::vector<double>(y.data, y.data + y.size()) == still);
}

}  // namespace moa_random_test
