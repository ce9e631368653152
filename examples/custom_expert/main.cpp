// SPDX-License-Identifier: MIT
// An expert of your own: its parameters and one equation; the library derives the gradients. The program checks them by
// differences, for mixtures of whole tokens and of sub-tokens, and trains one of them.

#include <headmix/headmix.hpp>

#include "../common.hpp"

using namespace headmix;

/// max(x W_1 + b, 0)^2 W_2
template <Index Hidden>
struct SquaredRelu {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct hidden_dim : size<Hidden> {};
    struct W_1 : param<E, D, hidden_dim> {};
    struct b : bias_param<E, hidden_dim> {};
    struct W_2 : param<E, hidden_dim, D> {};

    static constexpr auto mixture(Expr auto x, Expr auto gate, Selection auto index) {
      auto const h = square(relu(expert_linear(x, W_1{}, index) + expert_bias(b{}, index)));
      return combine(gate, expert_linear(h, W_2{}, index));
    }
  };
};
static_assert(ExpertPolicy<SquaredRelu<8>>);  // checks the requirements of an expert; see headmix/layer/expert.hpp

using Router = SoftmaxTopK<6, 2, gating::raw, loss::first_choice_balance, init<fan_in_uniform>>;
using OfTokens = Smoe<12, Router, SquaredRelu<16>>;
using OfSubTokens = MhMoe<12, /*split*/ 3, Router, SquaredRelu<16>, capacity<5, 4>>;

/// Trains on products of neighbouring features of 64 random tokens. Returns the final squared error relative to the
/// initial one.
double learn() {
  constexpr Index n = 64, d = 12;
  Module<OfSubTokens, Cpu<float>> m(/*seed*/ 1);
  AdamW<float, Cpu<float>> optimiser(m.parameters());
  auto const x = example::random_numbers(n * d);
  std::vector<float> dy(x.size());
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
    m.backward({dy.data(), n, d}, {/*weight of the load-balance loss*/ 0.01});
    optimiser.step(/*learning rate*/ 0.01);
  }
  std::printf("squared error %.1f, after 200 steps %.1f\n", first, error);
  return error / first;
}

int main() {
  bool const tokens = example::gradients_agree("tokens", OfTokens::y);
  bool const sub_tokens = example::gradients_agree("sub-tokens", OfSubTokens::y);
  return learn() < 0.5 && tokens && sub_tokens ? 0 : 1;
}
