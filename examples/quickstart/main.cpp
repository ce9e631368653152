// SPDX-License-Identifier: MIT
// The six lines of README.md in a program: a layer of mixture of attention heads computes y, and one step of gradient
// descent lowers an objective. README.md shows the lines between the marks [readme]; a test compares them.

// clang-format off
// [readme]
#include <headmix/headmix.hpp>
using namespace headmix;
// [/readme]
// clang-format on

#include "../common.hpp"

namespace {

double dot(view<float const> a, view<float const> b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}

/// Gradient descent; headmix/train has AdamW and Sgd.
void update(view<float> weight, view<float const> gradient) {
  for (Index i = 0; i < weight.size(); ++i) weight.data[i] -= 0.01f * gradient.data[i];
}

}  // namespace

int main() {
  auto const x_numbers = example::random_numbers(512 * 512);
  auto const dy_numbers = example::random_numbers(512 * 512, /*scale*/ 0.01, /*seed*/ 2);
  view<float const> const x(x_numbers.data(), 512, 512);
  view<float const> const dy(dy_numbers.data(), 512, 512);  // gradient of an objective by y; here sum(dy y)

  // clang-format off
  // [readme]
  Module<Moa<512, 64, SoftmaxTopK<8, 2>, causal>, Cpu<float>> m(/*seed*/ 1);
  auto y = m.forward(x, uniform(/*sequences*/ 4, /*length*/ 128));  // x, y: view<float const> of [512, 512]
  m.backward(dy, {0.01, 0.001});                                    // weights of the load-balance and z losses
  for (auto const& p : m.parameters()) update(p.value, p.gradient); // W_g, W_q, W_k, W_v, W_o
  // [/readme]
  // clang-format on

  auto const objective = [&] { return dot(dy, y) + 0.01 * m.loss<0>() + 0.001 * m.loss<1>(); };
  double const before = objective();
  y = m.forward(x, uniform(4, 128));
  double const after = objective();
  for (auto const& p : m.parameters()) {
    std::printf("%s [%td, %td, %td]\n", std::string(p.name).c_str(), p.value.count, p.value.rows, p.value.cols);
  }
  std::printf("y [%td, %td]; objective %.4f, after one step of gradient descent %.4f\n", y.rows, y.cols, before, after);
  return after < before ? 0 : 1;
}
