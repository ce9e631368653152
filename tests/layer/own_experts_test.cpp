// SPDX-License-Identifier: MIT
// Experts of users: a GLU with tanh, and low-rank experts with a shared base; balanced without a loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <headmix/headmix.hpp>

namespace own_experts_test {

using namespace headmix;

namespace {

struct tanh_glu : activation::policy {
  static constexpr bool gated = true;
  template <Expr U, Expr V>
  static constexpr auto hidden(U up, V gate) {
    return up * tanh(gate);
  }
};
template <Index Rank>
struct LowRank {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct F : size<Rank> {};
    struct W : param<D, D> {};
    struct A : param<E, D, F> {
      using initializer = fan_in_uniform;
    };
    struct B : param<E, F, D> {
      using initializer = zeros;
    };
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      return gelu(x % W{}) + combine(gate, expert_linear(expert_linear(x, A{}, index), B{}, index));
    }
  };
};
static_assert(ExpertPolicy<LowRank<4>>);

/// The squared error for products of neighbours after some steps, relative to the initial error.
template <class L>
double learns() {
  constexpr Index n = 64, d = 12;
  Module<L, Cpu<float>> m(1);
  AdamW<float, Cpu<float>> optimiser(m.parameters());
  std::vector<float> x(n * d), dy(n * d);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(Random(2).normal(i));
  double first = 0, error = 0;
  for (int step = 0; step < 100; ++step) {
    auto const y = m.forward({x.data(), n, d});
    error = 0;
    for (std::size_t i = 0; i < x.size(); ++i) dy[i] = y.data[i] - x[i] * x[i ^ 1], error += double(dy[i] * dy[i]);
    if (step == 0) first = error;
    m.zero_gradients();
    m.backward({dy.data(), n, d});
    optimiser.step(0.01);
    update_selection_bias<typename L::r::selection_bias>(m, 0.001);
  }
  return error / first;
}

}  // namespace

TEST_CASE("own experts: a GLU with tanh, and low-rank experts on a shared base") {
  using Router = LossFreeTopK<6, 2>;
  using LowRanks = Smoe<12, Router, LowRank<4>>;
  CHECK(gradcheck(Smoe<12, Router, FeedForward<16, tanh_glu>>::y, at<tokens>(9)).ok());
  CHECK(gradcheck(LowRanks::y, at<tokens>(9)).ok());
  CHECK(count_parameters<LowRanks>() == 12 * 12 + 2 * 6 * 12 * 4 + 12 * 6);
  CHECK(learns<LowRanks>() < 0.8);
}

}  // namespace own_experts_test
