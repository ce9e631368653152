// SPDX-License-Identifier: MIT
// Layers over bfloat16 storage, on the reference and on the CPU: float arithmetic is exact to the precision of the
// storage, and values of routers and losses are not rounded to it.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include "../difference.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/reference.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/program/module.hpp"

namespace bfloat16_test {

namespace {

using namespace headmix;
using headmix::test::relative_error;

using L = Moa<16, 8, NoisyTopK<4, 2, loss::load_balance, loss::z, loss::cv_squared>, causal, query_bias, output_bias,
              rope<10000>, padded, probability_dropout<1, 10>, output_dropout<1, 10>>;

template <class T>
T rounded(double x) {
  return static_cast<T>(static_cast<double>(bfloat16(x)));
}

/// The result, the gradients, and the losses of a layer with bfloat16 numbers.
template <class L, class Backend>
struct Outcome {
  using T = typename Backend::scalar;
  std::vector<double> numbers, gradients, losses;

  explicit Outcome(Backend backend = {}) {
    Module<L, Backend> m(1, backend);
    for (auto const& p : m.parameters()) {
      for (Index i = 0; i < p.value.size(); ++i) {
        p.value.data[i] = rounded<T>(Random(2).uniform(static_cast<std::uint64_t>(i)) - 0.5);
      }
    }
    std::vector<T> x(16 * 6), dy(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = rounded<T>(Random(3).uniform(i)), dy[i] = rounded<T>(Random(4).uniform(i));
    std::uint8_t const real[] = {1, 1, 0, 1, 1, 1};
    auto const y = m.forward(view<T const>(x.data(), 6, 16), Padding(view<std::uint8_t const>(real, 2, 3)));
    if constexpr (L::losses::size == 3) {
      m.backward({dy.data(), 6, 16}, {0.1, 0.1, 0.1});
      losses = {m.template loss<0>(), m.template loss<1>(), m.template loss<2>()};
    } else {
      m.backward({dy.data(), 6, 16}, {0.1});
      losses = {m.template loss<0>()};
    }
    auto const keep = [](std::vector<double>& to, view<T const> v) {
      for (Index i = 0; i < v.size(); ++i) to.push_back(static_cast<double>(v.data[i]));
    };
    keep(numbers, y);
    keep(gradients, m.input_gradient());
    for (auto const& p : m.parameters()) keep(gradients, p.gradient);
  }
};

using Experts = MhMoe<16, 2, SoftmaxTopK<5, 2, loss::load_balance>, FeedForward<12>, padded>;

TEST_CASE_TEMPLATE("layers over bfloat16 equal those over double to the precision of the storage", Layer, L, Experts) {
  Outcome<Layer, Reference<double>> const expected;
  Outcome<Layer, Reference<bfloat16>> const reference;
  thread_pool one(1), two(2);
  using backend = Cpu<bfloat16, thread_pool>;
  Outcome<Layer, backend> const cpu{backend(one)}, on_two{backend(two)};
  double const error = relative_error(reference.numbers, expected.numbers);
  double const of_gradients = relative_error(reference.gradients, expected.gradients);
  CHECK(error < 1e-2);
  CHECK(error > 1e-5);  // the computation was in bfloat16
  CHECK(of_gradients < 2e-2);
  CHECK(relative_error(cpu.numbers, expected.numbers) < 1.5 * error);
  CHECK(relative_error(cpu.gradients, expected.gradients) < 1.5 * of_gradients);
  CHECK(cpu.numbers == on_two.numbers);
  CHECK(cpu.gradients == on_two.gradients);
  // Losses of routers are floats: as exact as the router's input, which in MH-MoE is a product.
  double const of_losses = std::is_same_v<Layer, L> ? 1e-6 : 1e-4;
  CHECK(relative_error(reference.losses, expected.losses) < of_losses);
  CHECK(relative_error(cpu.losses, expected.losses) < of_losses);
}

/// y (+)= a b of whole numbers, so that the sums in float are exact.
template <class Backend>
std::vector<float> whole_product(Backend backend, Index rows, Index depth, Index cols, int transposed) {
  auto const numbers = [](Index n, std::uint64_t stream) {
    std::vector<bfloat16> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = bfloat16(std::round(5 * Random(6, stream).normal(i)));
    return v;
  };
  auto const a = numbers(rows * depth, 1), b = numbers(depth * cols, 2);
  auto y = numbers(rows * cols, 3);
  using matrix = view<bfloat16 const>;
  matrix const va = transposed & 1 ? matrix(a.data(), depth, rows).transposed() : matrix(a.data(), rows, depth);
  matrix const vb = transposed & 2 ? matrix(b.data(), cols, depth).transposed() : matrix(b.data(), depth, cols);
  backend.gemm(view<bfloat16>(y.data(), rows, cols), va, vb, (transposed & 4) != 0);
  return {y.begin(), y.end()};
}
TEST_CASE("products over bfloat16 are rounded once") {
  for (int const transposed : {0, 1, 2, 3, 4, 5, 6, 7}) {
    for (auto const& s : {std::array<Index, 3>{1, 300, 70}, {97, 19, 33}, {205, 600, 64}, {3, 0, 5}}) {
      CAPTURE(s[0]);
      CAPTURE(transposed);
      CHECK(whole_product(Cpu<bfloat16>{}, s[0], s[1], s[2], transposed) ==
            whole_product(Reference<bfloat16>{}, s[0], s[1], s[2], transposed));
    }
  }
}

TEST_CASE_TEMPLATE("rows over bfloat16 that go to one row are rounded once", Backend, Reference<bfloat16>,
                   Cpu<bfloat16>) {
  // Sequential bfloat16 sums would stop at 4, where a hundredth is less than half of the last digit.
  std::vector<bfloat16> const a(1000 * 70, bfloat16(0.01f));
  std::vector<Int> const index(1000, 260);
  std::vector<bfloat16> y(261 * 70, bfloat16(1.0f));
  for (bool const accumulate : {false, true}) {
    Backend().scatter_rows(view<bfloat16>(y.data(), 261, 70), {a.data(), 1000, 70}, {index.data(), 1000, 1},
                           accumulate);
    float const sum = 1000 * static_cast<float>(a[0]);
    CHECK(static_cast<float>(y[260 * 70 + 69]) == static_cast<float>(bfloat16(accumulate ? sum + sum : sum)));
    CHECK(static_cast<float>(y[0]) == 0.0f);
  }
}

struct D : size<12> {};
struct V : size<9> {};
struct x : input<tokens, D> {};
struct gain : param<D> {};
struct bias : param<D> {};
struct W : param<D, V> {};
struct target : selection<tokens, size<1>, V> {};

/// The end of a language model: a norm, a product and a loss.
/// @tparam Smoothing  eps of label smoothing, in tenths
template <class T, Index Smoothing>
double head_loss() {
  using Y =
      decltype(mean(label_smoothed_cross_entropy<Smoothing, 10>(layer_norm(x{}, gain{}, bias{}) % W{}, target{})));
  Reference<T> backend;
  Program<roots<std::remove_cv_t<Y>>, Reference<T>, inference> program(backend);
  std::vector<T> numbers(12 * 9);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = rounded<T>(Random(5).uniform(i) - 0.5);
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
TEST_CASE("a cross entropy over bfloat16 is a float, with and without label smoothing") {
  auto const same = [](double found, double expected) {
    CHECK(std::abs(found - expected) < 2e-3);
    CHECK(static_cast<double>(static_cast<float>(bfloat16(found))) != found);  // more digits than bfloat16
  };
  same(head_loss<bfloat16, 0>(), head_loss<double, 0>());
  same(head_loss<bfloat16, 1>(), head_loss<double, 1>());
  CHECK(std::abs(head_loss<double, 1>() - head_loss<double, 0>()) > 1e-3);
}
struct LogSum {
  struct D : size<6> {};
  struct x : input<tokens, D> {};
  struct W : param<D, size<9>> {};
  static constexpr auto y = log_sum_exp(x{} % W{});
  using losses = type_list<>;
  using observed = type_list<>;
};
TEST_CASE("the result of a module over bfloat16 is a float where it is never rounded") {
  Module<LogSum, Cpu<bfloat16>> narrow(1);
  Module<LogSum, Reference<double>> wide(uninitialized{});
  copy_parameters(narrow, wide);
  std::vector<bfloat16> x;
  std::vector<double> wide_x;
  for (Index i = 0; i < 3 * 6; ++i) {
    x.emplace_back(static_cast<float>(Random(4).normal(static_cast<std::uint64_t>(i))));
    wide_x.push_back(static_cast<double>(x.back()));
  }
  view<float const> const y = narrow.forward({x.data(), 3, 6});
  view<double const> const expected = wide.forward({wide_x.data(), 3, 6});
  for (Index i = 0; i < 3; ++i) {
    CHECK(std::abs(static_cast<double>(y(i, 0)) - expected(i, 0)) < 5e-3);
    CHECK(static_cast<float>(bfloat16(y(i, 0))) != y(i, 0));
  }
  float const dy[] = {1, -2, 0.3f};
  double const wide_dy[] = {1, -2, 0.3f};
  narrow.backward({dy, 3, 1});
  wide.backward({wide_dy, 3, 1});
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 6; ++j)
      CHECK(std::abs(static_cast<double>(narrow.input_gradient()(i, j)) - wide.input_gradient()(i, j)) < 2e-2);
}

}  // namespace

}  // namespace bfloat16_test
