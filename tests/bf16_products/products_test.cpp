// SPDX-License-Identifier: MIT
// Cpu<float> with products of bfloat16: layers are as exact as headmix::products documents, bitwise equal on two
// threads, and every kernel with products uses them.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"
#include "headmix/program/module.hpp"

namespace {

using namespace headmix;

template <class Products>
using rounding = Cpu<float, thread_pool, Products>;

/// The result, and the gradients of the input and all parameters, of 90 tokens in two sequences, with the choices of
/// experts made in double.
template <class L, class Backend>
std::vector<double> step_of(Module<L, Backend>& m, Index width) {
  using T = typename Backend::scalar;
  std::vector<T> x(static_cast<std::size_t>(90 * width)), dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(static_cast<float>(Random(2).normal(i)));
    dy[i] = static_cast<T>(static_cast<float>(Random(3).normal(i)));
  }
  std::vector<double> all;
  auto const keep = [&all](auto const& v) {
    for (Index i = 0; i < v.size(); ++i) all.push_back(static_cast<double>(v.data[i]));
  };
  keep(m.forward({x.data(), 90, width}, uniform(2, 45)));
  m.backward({dy.data(), 90, width});
  keep(m.input_gradient());
  for (auto const& p : m.parameters()) keep(p.gradient);
  return all;
}
template <class L, class Products>
double error_of_layer(Index width) {
  thread_pool one(1), two(2);
  Module<L, rounding<Products>> m(1, rounding<Products>(one)), on_two(1, rounding<Products>(two));
  Module<L, Reference<double>> exact(uninitialized{});
  copy_parameters(m, exact);
  auto const found = step_of(m, width), expected = step_of(exact, width);
  CHECK(step_of(on_two, width) == found);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

template <class L, Index Width>
struct Case {
  using layer = L;
  static constexpr Index width = Width;
};
/// All experts are chosen, so that choices do not depend on rounding.
using Attention = Case<MultiHead<33, 3, 11, causal>, 33>;
using AttentionExperts = Case<Moa<70, 24, SoftmaxTopK<4, 4>, causal>, 70>;
using Experts = Case<Smoe<65, SoftmaxTopK<4, 4>, FeedForward<37>>, 65>;

TEST_CASE_TEMPLATE("layers of float over products of bfloat16 are as exact as they say", C, Attention, AttentionExperts,
                   Experts) {
  double const once = error_of_layer<typename C::layer, products::bfloat16>(C::width);
  double const thrice = error_of_layer<typename C::layer, products::bfloat16_x3>(C::width);
  double const exact = error_of_layer<typename C::layer, products::exact>(C::width);
  CHECK(exact < 1e-6);
  CHECK(once < 1e-2);
  CHECK(once > 1e-3);  // operands were rounded
  CHECK(thrice < 2e-5);
  if (cpu_kernels::has_tiles()) {
    CHECK(thrice > 1e-6);
  } else {
    CHECK(thrice == exact);
  }
}

/// y (+)= a b with operands of any strides, empty operands and single rows.
template <class Products>
double error_of_product(Index rows, Index depth, Index cols, int layout) {
  auto const numbers = [](Index n, std::uint64_t stream) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(Random(6, stream).normal(i));
    return v;
  };
  auto const a = numbers(rows * depth, 1), b = numbers(depth * cols, 2);
  auto y = numbers(rows * cols, 3);
  auto const y_before = y;
  using matrix = view<float const>;
  matrix const va = layout & 1 ? matrix(a.data(), depth, rows).transposed() : matrix(a.data(), rows, depth);
  matrix const vb = layout & 2 ? matrix(b.data(), cols, depth).transposed() : matrix(b.data(), depth, cols);
  view<float> const vy =
      layout & 8 ? view<float>(y.data(), cols, rows).transposed() : view<float>(y.data(), rows, cols);
  bool const accumulate = (layout & 4) != 0;
  thread_pool one(1);
  rounding<Products>(one).gemm(vy, va, vb, accumulate);
  double difference = 0, norm = 1e-30;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) {
      std::size_t const at = static_cast<std::size_t>(&vy(i, j) - y.data());
      double sum = accumulate ? static_cast<double>(y_before[at]) : 0;
      for (Index k = 0; k < depth; ++k) sum += static_cast<double>(va(i, k)) * static_cast<double>(vb(k, j));
      difference += (sum - static_cast<double>(vy(i, j))) * (sum - static_cast<double>(vy(i, j)));
      norm += sum * sum;
    }
  return std::sqrt(difference / norm);
}
TEST_CASE("products of float by those of bfloat16") {
  for (int layout = 0; layout < 16; ++layout) {
    for (auto const& s : {std::array<Index, 3>{1, 300, 70}, {97, 19, 33}, {205, 1100, 64}, {3, 0, 5}, {0, 4, 4}}) {
      CAPTURE(s[0]);
      CAPTURE(layout);
      CHECK(error_of_product<products::bfloat16>(s[0], s[1], s[2], layout) < 5e-3);
      CHECK(error_of_product<products::bfloat16_x3>(s[0], s[1], s[2], layout) < 2e-5);
    }
  }
}

template <class Products>
void check_outer_products(Index slots, bool accumulate) {
  Index const rows = 7, cols = 70;
  std::vector<float> x(static_cast<std::size_t>(slots * rows)), g(static_cast<std::size_t>(slots * cols));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5);  // exact in bfloat16
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i % 3);
  std::vector<float> y(static_cast<std::size_t>(rows * cols), 1.0f), expected(y);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) {
      double sum = accumulate ? 1 : 0;
      for (Index s = 0; s < slots; ++s)
        sum += static_cast<double>((s * rows + i) % 5) * static_cast<double>((s * cols + j) % 3);
      expected[static_cast<std::size_t>(i * cols + j)] = static_cast<float>(sum);
    }
  std::vector<Int> perm(static_cast<std::size_t>(slots));
  for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<Int>(i);
  std::vector<Int> const offsets{0, static_cast<Int>(slots)};
  Cpu<float, serial, Products> backend;
  view<float const> const vx(x.data(), slots, rows), vg(g.data(), slots, cols);
  view<float> const vy(y.data(), 1, rows, cols);
  std::size_t const bytes = backend.grouped_outer_scratch(vy, vx, vg);
  std::vector<std::byte> memory(bytes + 65536, std::byte{77});
  backend.grouped_outer(vy, vx, vg, {perm.data(), 1, slots}, {offsets.data(), 1, 2}, 1, 1, accumulate,
                        std::span<std::byte>(memory.data(), bytes));
  CHECK(y == expected);
  CHECK(std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(bytes), memory.end(),
                    [](std::byte b) { return b == std::byte{77}; }));
}
TEST_CASE("outer products of rounded floats stay in their scratch") {
  for (Index const slots : {0, 1, 384, 385, 1000, 70001}) {
    for (bool const accumulate : {false, true}) {
      CAPTURE(slots);
      CAPTURE(accumulate);
      check_outer_products<products::bfloat16>(slots, accumulate);
      check_outer_products<products::bfloat16_x3>(slots, accumulate);
      check_outer_products<products::exact>(slots, accumulate);
    }
  }
}

}  // namespace
