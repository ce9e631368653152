// SPDX-License-Identifier: MIT
// Checks the gradients of mixtures of squared_relu.hpp by differences: of tokens, and of sub-tokens with a limit on
// what an expert takes. Then trains one of them.

#include <cstdio>
#include <headmix/testing/gradcheck.hpp>
#include <vector>

#include "squared_relu.hpp"

namespace {

using headmix::at;
using headmix::Index;
using headmix::tokens;

using Router = headmix::SoftmaxTopK<6, 2, headmix::gating::raw, headmix::loss::first_choice_balance,
                                    headmix::init<headmix::fan_in_uniform>>;
using Experts = custom::SquaredRelu<16>;
using OfTokens = headmix::Smoe<12, Router, Experts>;
using OfSubTokens = headmix::MhMoe<12, 3, Router, Experts, headmix::capacity<5, 4>>;

bool check(char const* name, auto y) {
  auto const r = headmix::gradcheck(y, at<tokens>(7));
  std::printf("%-12s largest error %.1e%s%s\n", name, r.error, r.ok() ? "" : ", at ", r.ok() ? "" : r.text.c_str());
  return r.ok();
}

/// Learns the products of neighbouring features from 64 random tokens. Returns the squared error's fall.
double learn() {
  constexpr Index n = 64, d = 12;
  headmix::Module<OfSubTokens, headmix::Cpu<float>> m(1);
  headmix::AdamW<float, headmix::Cpu<float>> optimiser(m.parameters());
  std::vector<float> x(n * d), dy(n * d);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(headmix::Random(2).normal(i));
  double first = 0, error = 0;
  for (int step = 0; step < 200; ++step) {
    auto const y = m.forward({x.data(), n, d});
    error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dy[i] = y.data[i] - x[i] * x[i ^ 1];
      error += dy[i] * dy[i];
    }
    if (step == 0) first = error;
    m.zero_gradients();
    m.backward({dy.data(), n, d}, {0.01});
    optimiser.step(0.01);
  }
  std::printf("squared error %.1f, at the start %.1f; load balance loss %.3f (1 at balance)\n", error, first,
              m.loss<0>());
  return error / first;
}

}  // namespace

int main() {
  bool ok = check("tokens", OfTokens::y);
  ok = check("sub-tokens", OfSubTokens::y) && ok;
  return learn() < 0.5 && ok ? 0 : 1;
}
