// SPDX-License-Identifier: MIT
// Module: a layer with its parameters.

#include "headmix/program/module.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "../test_program.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"

namespace module_test {

using namespace headmix;
using namespace headmix::test;

namespace {

using L = Moa<6, 4, SoftmaxTopK<5, 2>, causal>;
using M = Module<L, Reference<double>>;

/// A layer without a gradient of its input.
struct Detached {
  struct x : input<tokens, size<6>> {};
  struct W : param<size<6>, size<6>> {};
  static constexpr auto y = detach(x{}) % W{};
  using losses = type_list<>;
  using observed = type_list<>;
};

std::vector<double> numbers(std::size_t n) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = Random(5).normal(i);
  return v;
}

/// Largest and smallest element, and mean, of a parameter.
template <class P>
std::array<double, 3> statistics(P const& p) {
  double low = 1e9, high = -1e9, sum = 0;
  for (Index i = 0; i < p.value.size(); ++i) {
    low = std::min(low, p.value.data[i]);
    high = std::max(high, p.value.data[i]);
    sum += p.value.data[i];
  }
  return {low, high, sum / static_cast<double>(p.value.size())};
}

}  // namespace

TEST_CASE("module: parameters have the names and shapes of the layer") {
  M m(1);
  std::vector<std::string> names;
  for (auto const& p : m.parameters()) {
    names.emplace_back(p.name);
    CHECK(p.value.contiguous());
    CHECK(p.gradient.size() == p.value.size());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"W_g", "W_k", "W_o", "W_q", "W_v"});
  CHECK(m.get<L::W_q>().name == "W_q");
  CHECK(m.get<L::W_q>().value.count == 5);
  CHECK(m.get<L::W_q>().value.rows == 6);
  CHECK(m.get<L::W_q>().value.cols == 4);
  CHECK(m.get<L::W_o>().value.rows == 4);
  CHECK(m.get<L::r::W_g>().value.cols == 5);
}
TEST_CASE("module: parameters start within the bounds of Xavier, the router at zero") {
  using big = Moa<60, 36, SoftmaxTopK<5, 2>, causal>;
  Module<big, Reference<double>> m(3);
  double const q = std::sqrt(6.0 / 96), k = q / std::sqrt(2.0);
  auto const within = [](auto const& p, double bound) {
    auto const [low, high, mean] = statistics(p);
    CHECK(low >= -bound);
    CHECK(low < -0.98 * bound);
    CHECK(high <= bound);
    CHECK(high > 0.98 * bound);
    CHECK(std::abs(mean) < 0.05 * bound);
  };
  within(m.get<big::W_q>(), q);
  within(m.get<big::W_o>(), q);
  within(m.get<big::W_k>(), k);
  within(m.get<big::W_v>(), k);
  CHECK(statistics(m.get<big::r::W_g>())[0] == 0);
  CHECK(statistics(m.get<big::r::W_g>())[1] == 0);
}
TEST_CASE("module: the same seed gives the same bits, another seed or parameter others") {
  M a(7), b(7), c(8);
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    auto const &p = a.parameters()[i].value, &q = b.parameters()[i].value, &r = c.parameters()[i].value;
    CHECK(std::equal(p.data, p.data + p.size(), q.data));
    if (a.parameters()[i].name != "W_g") CHECK_FALSE(std::equal(p.data, p.data + p.size(), r.data));
  }
  CHECK(a.get<L::W_k>().value(0, 0) != a.get<L::W_v>().value(0, 0));
  CHECK(a.get<L::W_q>().value[0](0, 0) != a.get<L::W_q>().value[1](0, 0));
}
TEST_CASE("module: forward and backward are those of the program") {
  M m(2);
  auto const x = numbers(7 * 6), dy = numbers(7 * 6);
  auto const y = m.forward(view<double const>(x.data(), 7, 6));
  m.backward(view<double const>(dy.data(), 7, 6), {0.5, 0.25});

  TestProgram<M::layer_roots> p(at<tokens>(7));
  p.values(L::x{}) = x;
  auto const copy = [&](auto leaf) {
    auto const& v = m.get<decltype(leaf)>().value;
    std::copy(v.data, v.data + v.size(), p.values(leaf).begin());
  };
  copy(L::W_q{});
  copy(L::W_k{});
  copy(L::W_v{});
  copy(L::W_o{});
  copy(L::r::W_g{});
  auto const z = p.forward();
  p.dy_values = dy;
  p.dy = {p.dy_values.data(), 7, 6};
  p.backward({0.5, 0.25});
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
  auto const same = [&](auto leaf) {
    auto const& g = m.get<decltype(leaf)>().gradient;
    CHECK(std::equal(g.data, g.data + g.size(), p.gradients(leaf).begin()));
  };
  same(L::W_q{});
  same(L::W_k{});
  same(L::W_v{});
  same(L::W_o{});
  same(L::r::W_g{});
  auto const dx = m.input_gradient();
  CHECK(std::equal(dx.data, dx.data + dx.size(), p.gradients(L::x{}).begin()));
  CHECK(m.loss<0>() == p.program.get(L::r::load)(0, 0));
  CHECK(m.loss<1>() == p.program.get(L::r::z_2)(0, 0));
  auto const chosen = m.observed(), other = p.program.get(L::r::index);
  CHECK(std::equal(chosen.data, chosen.data + chosen.size(), other.data));
}
TEST_CASE("module: gradients of parameters add up until they are zeroed, that of the input starts anew") {
  M m(2);
  auto const x = numbers(4 * 6);
  view<double const> const v(x.data(), 4, 6);
  m.forward(v);
  m.backward(v, {0, 0});
  auto const& g = m.get<L::W_q>().gradient;
  std::vector<double> const once(g.data, g.data + g.size());
  auto const dx = m.input_gradient();
  std::vector<double> const input_once(dx.data, dx.data + dx.size());
  m.forward(v);
  m.backward(v, {0, 0});
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(close(g.data[i], 2 * once[i], 1e-14));
  auto const again = m.input_gradient();
  CHECK(std::equal(input_once.begin(), input_once.end(), again.data));
  m.zero_gradients();
  for (Index i = 0; i < g.size(); ++i) CHECK(g.data[i] == 0);
}
TEST_CASE(
    "module: a forward pass leaves gradients as they are, a repeated backward pass makes that of the input anew") {
  M m(2);
  auto const x = numbers(9 * 6);
  view<double const> const v(x.data(), 4, 6);
  m.forward(v);
  m.backward(v, {0, 0});
  auto const dx = m.input_gradient();
  auto const& g = m.get<L::W_q>().gradient;
  std::vector<double> const input_once(dx.data, dx.data + dx.size()), once(g.data, g.data + g.size());
  CHECK(dx.rows == 4);
  m.backward(v, {0, 0});
  CHECK(std::equal(input_once.begin(), input_once.end(), m.input_gradient().data));
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(close(g.data[i], 2 * once[i], 1e-14));

  std::vector<double> const twice(g.data, g.data + g.size());
  m.forward(view<double const>(x.data(), 9, 6));
  CHECK((m.input_gradient().rows == 4 && m.input_gradient().data == dx.data));
  CHECK(std::equal(input_once.begin(), input_once.end(), dx.data));
  CHECK(std::equal(twice.begin(), twice.end(), g.data));
  // A refused backward pass leaves gradients unchanged, too.
  CHECK_THROWS_AS(m.backward(v, {0, 0}), Error);
  CHECK(std::equal(input_once.begin(), input_once.end(), m.input_gradient().data));
  m.backward(view<double const>(x.data(), 9, 6), {0, 0});
  CHECK(m.input_gradient().rows == 9);
}
TEST_CASE("module: an input that the caller gives a gradient has that one added to") {
  M m(2), own(2);
  auto const x = numbers(4 * 6);
  std::vector<double> dx(x.size(), 0.0);
  view<double const> const v(x.data(), 4, 6);
  m.forward(v);
  m.backward(v, {0, 0});
  own.program().bind(L::x{}, v, view<double>(dx.data(), 4, 6));
  own.forward();
  own.backward(v, {0, 0});
  CHECK(own.input_gradient().data == dx.data());
  CHECK(std::equal(dx.begin(), dx.end(), m.input_gradient().data));
  own.backward(v, {0, 0});
  for (std::size_t i = 0; i < dx.size(); ++i) CHECK(close(dx[i], 2 * m.input_gradient().data[i], 1e-14));
}
TEST_CASE("module: the gradient by an input is made anew, whatever the latest one was") {
  M m(2), fresh(2);
  auto const x = numbers(4 * 6);
  view<double const> const v(x.data(), 4, 6);
  std::vector<double> const nothing(x.size(), std::numeric_limits<double>::quiet_NaN());
  m.forward(v);
  m.backward(view<double const>(nothing.data(), 4, 6), {0, 0});
  CHECK(std::isnan(m.input_gradient()(0, 0)));
  m.backward(v, {0, 0});
  fresh.forward(v);
  fresh.backward(v, {0, 0});
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(m.input_gradient().data[i] == fresh.input_gradient().data[i]);
}
TEST_CASE("module: the gradient by an input that nothing depends on is zero") {
  Module<Detached, Reference<double>> m(2);
  auto const x = numbers(4 * 6);
  view<double const> const v(x.data(), 4, 6);
  m.forward(v);
  m.backward(v);
  REQUIRE(m.input_gradient().size() == 24);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(m.input_gradient().data[i] == 0);
  CHECK(m.get<Detached::W>().gradient(0, 0) != 0);
}
TEST_CASE("module: for inference there are no gradients") {
  Module<L, Reference<double>, inference> m(4);
  auto const x = numbers(3 * 6);
  m.forward(view<double const>(x.data(), 3, 6));
  for (auto const& p : m.parameters()) CHECK((p.gradient.data == nullptr && p.gradient.size() == 0));
  CHECK(m.program().gradient(L::x{}).data == nullptr);
  m.zero_gradients();  // of no parameter
  using shares = Module<L, Reference<double>>;
  CHECK_THROWS_WITH_AS(shares(share_parameters{}, m), doctest::Contains("is for inference: W_"), Error);
}
TEST_CASE("module: batches of any size follow each other") {
  M m(4);
  auto const x = numbers(20 * 6);
  auto const first = m.forward(view<double const>(x.data(), 5, 6));
  std::vector<double> const before(first.data, first.data + first.size());
  CHECK(m.forward(view<double const>(x.data(), 20, 6)).rows == 20);
  CHECK(m.forward(view<double const>(x.data(), 1, 6)).rows == 1);
  auto const again = m.forward(view<double const>(x.data(), 5, 6));
  CHECK(std::equal(before.begin(), before.end(), again.data));
}
TEST_CASE("module: a batch of no tokens") {
  M m(4);
  CHECK(m.forward(view<double const>(nullptr, 0, 6)).rows == 0);
  m.backward(view<double const>(nullptr, 0, 6), {0, 0});
  CHECK(m.input_gradient().rows == 0);
  auto const x = numbers(12);
  CHECK(m.forward(view<double const>(x.data(), 2, 6)).rows == 2);
}
TEST_CASE("module: sequences of a batch do not see each other") {
  M m(4);
  auto const x = numbers(7 * 6);
  std::array<Int, 4> const offsets{0, 3, 3, 7};
  auto const all = m.forward(view<double const>(x.data(), 7, 6), ragged(offsets.data(), 3));
  std::vector<double> const together(all.data, all.data + all.size());
  auto const one = m.forward(view<double const>(x.data(), 3, 6));
  for (Index i = 0; i < 18; ++i) CHECK(close(one.data[i], together[static_cast<std::size_t>(i)]));
  auto const two = m.forward(view<double const>(x.data() + 18, 4, 6));
  for (Index i = 0; i < 24; ++i) CHECK(close(two.data[i], together[static_cast<std::size_t>(18 + i)]));
}
TEST_CASE("module: a layer of dynamic sizes is told them") {
  using F = Moa<dynamic, dynamic, SoftmaxTopK<dynamic, dynamic>, causal>;
  Module<F, Reference<double>> free(9, {}, at<F::model_dim>(6), at<F::head_dim>(4), at<F::experts>(5), at<F::top_k>(2));
  M fixed(9);
  auto const x = numbers(7 * 6);
  view<double const> const v(x.data(), 7, 6);
  auto const y = fixed.forward(v), z = free.forward(v);
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
}
TEST_CASE("module: a dynamic size that was not told is named") {
  using F = Moa<dynamic, 4, SoftmaxTopK<5, 2>>;
  using free = Module<F, Reference<double>>;
  CHECK_THROWS_WITH_AS(free(1), doctest::Contains("size model_dim is dynamic"), Error);
}
TEST_CASE("module: dynamic sizes that appear as a product and were not told are named") {
  using F = MultiHead<6, dynamic, dynamic>;
  using free = Module<F, Reference<double>>;
  CHECK_THROWS_WITH_AS(free(1), doctest::Contains("size heads is dynamic"), Error);
}
TEST_CASE("module: inference gives the same values") {
  M m(4);
  Module<L, Reference<double>, inference> i(4);
  auto const x = numbers(7 * 6);
  view<double const> const v(x.data(), 7, 6);
  auto const y = m.forward(v), z = i.forward(v);
  CHECK(std::equal(y.data, y.data + y.size(), z.data));
}
TEST_CASE("module: float comes close to double") {
  M m(4);
  Module<L, Reference<float>> f(4);
  auto const x = numbers(7 * 6);
  std::vector<float> const xf(x.begin(), x.end());
  m.get<L::r::W_g>().value(0, 1) = 1;  // breaks the tie of zeros
  f.get<L::r::W_g>().value(0, 1) = 1;
  m.get<L::r::W_g>().value(1, 2) = 1;
  f.get<L::r::W_g>().value(1, 2) = 1;
  auto const y = m.forward(view<double const>(x.data(), 7, 6));
  auto const z = f.forward(view<float const>(xf.data(), 7, 6));
  for (Index i = 0; i < y.size(); ++i) CHECK(close(z.data[i], y.data[i], 1e-5));
}

}  // namespace module_test
