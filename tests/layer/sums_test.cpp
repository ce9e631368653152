// SPDX-License-Identifier: MIT
// Losses of equal tokens, and gradients of parameters, depend on the number of tokens by rounding only: they are means
// over tokens, or sums proportional to it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "../difference.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/module.hpp"

namespace layer_sums_test {

namespace {

using namespace headmix;
using headmix::test::relative_error;

struct found {
  std::vector<double> losses;
  std::vector<double> gate;                    ///< the gradient of W_g from load_balance
  std::vector<std::vector<double>> per_token;  ///< gradients of the other parameters, divided by the number of tokens
};

/// Equal tokens, in sequences of 64 so that each token sees equal values; the gradient of the result is 0.1 everywhere.
template <class L, class T>
found step(Index tokens) {
  Module<L, Cpu<T>> m(1);
  auto& W = m.template get<typename L::r::W_g>();
  for (Index i = 0; i < W.value.size(); ++i) W.value.data[i] = static_cast<T>(float(i % 7) * 0.1f - 0.2f);
  std::vector<T> x(static_cast<std::size_t>(tokens * 4)), dy(x.size(), static_cast<T>(0.1f)), none(x.size(), T(0));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(0.3f * static_cast<float>(i % 4) - 0.2f);
  m.forward({x.data(), tokens, 4}, uniform(tokens / 64, 64));
  found result;
  result.losses = {m.template loss<0>(), m.template loss<1>()};
  m.zero_gradients();
  m.backward({none.data(), tokens, 4}, {1., 0.});
  for (Index i = 0; i < W.gradient.size(); ++i) result.gate.push_back(static_cast<double>(W.gradient.data[i]));
  m.zero_gradients();
  m.backward({dy.data(), tokens, 4}, {0., 0.});
  for (auto const& p : m.parameters()) {
    result.per_token.emplace_back();
    for (Index i = 0; i < p.gradient.size(); ++i)
      result.per_token.back().push_back(static_cast<double>(p.gradient.data[i]) / static_cast<double>(tokens));
  }
  return result;
}

template <class L, class T>
void check(std::vector<Index> const& sizes) {
  constexpr double eps = 0x1p-23, stored = std::is_same_v<T, float> ? 256 * eps : 0x1p-7;
  found const few = step<L, T>(64);
  for (Index const tokens : sizes) {
    CAPTURE(tokens);
    found const many = step<L, T>(tokens);
    CHECK(relative_error(many.losses, few.losses) < 256 * eps);
    CHECK(relative_error(many.gate, few.gate) < stored);
    for (std::size_t i = 0; i < few.per_token.size(); ++i) {
      CAPTURE(i);
      // Gradients of the gate, and others that come from differences between keys, are rounding errors only.
      if (relative_error(few.per_token[i], std::vector<double>(few.per_token[i].size())) < 1e-4) continue;
      CHECK(relative_error(many.per_token[i], few.per_token[i]) < stored);
    }
  }
}
using Attention = Moa<4, 4, SoftmaxTopK<5, 1>, causal, output_bias>;
using Experts = Smoe<4, SoftmaxTopK<5, 1>, FeedForward<8>>;

TEST_CASE_TEMPLATE("losses and gradients of equal tokens do not depend on their number", T, float, bfloat16) {
  check<Attention, T>({1 << 12, 1 << 16});
  check<Experts, T>({1 << 16});
}
TEST_CASE("losses and gradients of 2^20 equal tokens [slow]") { check<Attention, float>({1 << 20}); }

}  // namespace

}  // namespace layer_sums_test
