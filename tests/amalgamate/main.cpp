// SPDX-License-Identifier: MIT
// A program that includes only the single header and Eigen.
#include <cstdio>

#include "headmix.hpp"
#include "headmix.hpp"  // including it twice is harmless

int main() {
  using namespace headmix;
  Module<Moa<8, 4, SoftmaxTopK<3, 2>, causal>, Cpu<float>> m(/*seed*/ 1);
  float numbers[6 * 8], ones[6 * 8];
  for (Index i = 0; i < 6 * 8; ++i) {
    numbers[i] = static_cast<float>(Random(2).normal(static_cast<std::uint64_t>(i)));
    ones[i] = 1;
  }
  view<float const> const x(numbers, 6, 8), dy(ones, 6, 8);
  auto const sum = [&] {
    auto const y = m.forward(x, uniform(2, 3));
    double s = 0;
    for (Index i = 0; i < y.size(); ++i) s += static_cast<double>(y.data[i]);
    return s;
  };
  double const before = sum();
  m.backward(dy);
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.value.size(); ++i) p.value.data[i] -= 0.01f * p.gradient.data[i];
  }
  double const after = sum();
  std::printf("headmix %d: the sum of y was %.4f and is %.4f\n", HEADMIX_VERSION, before, after);
  return after < before ? 0 : 1;
}
