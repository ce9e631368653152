// SPDX-License-Identifier: MIT
// Layers over bfloat16 storage, on the reference: what they compute in float is right to the precision of the storage,
// and what routers and losses compute does not pass through it.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"

namespace {

using namespace headmix;

using L = Moa<16, 8, NoisyTopK<4, 2, loss::load_balance, loss::z, loss::cv_squared>, causal, query_bias, output_bias,
              rope<10000>, padded, probability_dropout<1, 10>, output_dropout<1, 10>>;

/// The result, the gradient by the input, and the losses of a layer whose numbers are all bfloat16s.
template <class T>
struct Outcome {
  std::vector<double> numbers, losses;

  Outcome() {
    Module<L, Reference<T>> m(1);
    for (auto const& p : m.parameters()) {
      for (Index i = 0; i < p.value.size(); ++i) {
        p.value.data[i] = rounded(Random(2).uniform(static_cast<std::uint64_t>(i)) - 0.5);
      }
    }
    std::vector<T> x(16 * 6), dy(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = rounded(Random(3).uniform(i)), dy[i] = rounded(Random(4).uniform(i));
    std::uint8_t const real[] = {1, 1, 0, 1, 1, 1};
    auto const y = m.forward(view<T const>(x.data(), 6, 16), Padding(view<std::uint8_t const>(real, 2, 3)));
    m.backward({dy.data(), 6, 16}, {0.1, 0.1, 0.1});
    for (Index i = 0; i < y.size(); ++i) numbers.push_back(static_cast<double>(y.data[i]));
    for (Index i = 0; i < y.size(); ++i) numbers.push_back(static_cast<double>(m.input_gradient().data[i]));
    losses = {m.template loss<0>(), m.template loss<1>(), m.template loss<2>()};
  }
  static T rounded(double x) { return static_cast<T>(static_cast<double>(bfloat16(x))); }
};

double relative_error(std::vector<double> const& found, std::vector<double> const& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

TEST_CASE("MoA over bfloat16 equals MoA over double to the precision of the storage") {
  Outcome<bfloat16> const found;
  Outcome<double> const expected;
  CHECK(relative_error(found.numbers, expected.numbers) < 1e-2);
  CHECK(relative_error(found.numbers, expected.numbers) > 1e-5);  // it was bfloat16
}
TEST_CASE("the losses of a router are not rounded to bfloat16") {
  CHECK(relative_error(Outcome<bfloat16>().losses, Outcome<double>().losses) < 1e-6);
}

struct D : size<12> {};
struct V : size<9> {};
struct x : input<tokens, D> {};
struct gain : param<D> {};
struct bias : param<D> {};
struct W : param<D, V> {};
struct target : selection<tokens, size<1>, V> {};

/// A norm, a product and a loss, as language models end.
template <class T>
double head_loss() {
  using Y = decltype(mean(cross_entropy(layer_norm(x{}, gain{}, bias{}) % W{}, target{})));
  Reference<T> backend;
  Program<roots<std::remove_cv_t<Y>>, Reference<T>, inference> program(backend);
  std::vector<T> numbers(12 * 9);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = Outcome<T>::rounded(Random(5).uniform(i) - 0.5);
  std::vector<Int> const targets{1, 0, 8, 3, 2, 7, 5};
  program.bind(x{}, {numbers.data(), 7, 12});
  program.bind(gain{}, {numbers.data() + 3, 1, 12});
  program.bind(bias{}, {numbers.data() + 7, 1, 12});
  program.bind(W{}, {numbers.data(), 12, 9});
  program.bind(target{}, {targets.data(), 7, 1});
  AlignedBuffer workspace(program.workspace_bytes());
  program.bind_workspace(workspace.bytes());
  return static_cast<double>(program.forward()(0, 0));
}
TEST_CASE("a cross entropy over bfloat16 is a float") {
  double const expected = head_loss<double>(), found = head_loss<bfloat16>();
  CHECK(std::abs(found - expected) < 2e-3);
  CHECK(static_cast<double>(static_cast<float>(bfloat16(found))) != found);  // more digits than the storage has
}

}  // namespace
