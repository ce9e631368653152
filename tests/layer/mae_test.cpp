// SPDX-License-Identifier: MIT
// MAE: the mixture and its experts, against multi-head attention and against experts computed one by one.

#include "headmix/layer/mae.hpp"

#include <array>

#include "../difference.hpp"
#include "../test_program.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/program/module.hpp"

namespace mae_test {

using namespace headmix;
using namespace headmix::test;

namespace {

std::array<Int, 5> const offsets{0, 3, 3, 4, 9};

std::vector<double> numbers(Index n, std::uint64_t stream) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 2 * Random(11, stream).uniform(i) - 1;
  return v;
}
template <class M, class P>
void fill(M& m, double scale, std::uint64_t stream, P which) {
  auto const& p = m.template get<P>();
  auto const v = numbers(p.value.size(), stream);
  for (std::size_t i = 0; i < v.size(); ++i) p.value.data[i] = scale * v[i];
  static_cast<void>(which);
}
/// Copies the parameters of multi-head attention to another module.
template <class A, class B>
void same_attention(Module<A, Reference<double>>& a, Module<B, Reference<double>>& b) {
  for (auto const& p : a.parameters()) {
    for (auto const& q : b.parameters()) {
      if (p.name == q.name) std::copy_n(p.value.data, p.value.size(), q.value.data);
    }
  }
}

}  // namespace

TEST_CASE("mae: weights of heads") {
  struct g7 : constant<size<1>, size<8>> {};
  struct g6 : constant<size<1>, size<28>> {};
  using L7 = Mae<8, 8, 2>;
  using L6 = Mae<8, 8, 2, left_out_heads<2>>;
  auto const weights = [](auto gate, auto layer, std::vector<double> const& expected) {
    using L = decltype(layer);
    constexpr auto p = softmax(gate);
    constexpr auto c = L::scale * (p % one_hot(typename L::heads_of_experts{}));
    TestProgram<roots<type_of<decltype(c)>>> program;
    auto table = program.in(typename L::heads_of_experts{});
    for (Index i = 0; i < table.rows; ++i) {
      for (Index j = 0; j < table.cols; ++j) table(i, j) = static_cast<Int>(L::heads_of_experts::element(i, j));
    }
    auto z = program.in(decltype(gate){});
    for (Index i = 0; i < z.cols; ++i) z(0, i) = std::sin(0.7 * static_cast<double>(i + 1));
    auto const found = program.forward();
    double sum = 0;
    for (Index j = 0; j < 8; ++j) sum += found(0, j);
    CHECK(close(sum, 8));
    for (std::size_t j = 0; j < expected.size(); ++j) {
      CAPTURE(j);
      CHECK(std::abs(found(0, static_cast<Index>(j)) - expected[j]) < 1e-10);
    }
  };
  // Computed from the formula by another program.
  weights(g7{}, L7{}, {.9331873791, .8479189608, .8818558349, .9889569641});
  weights(g6{}, L6{}, {.9703004513, .8985729199, 1.1023042437, .8758682514});
}

TEST_CASE("mae: with equal weights it is multi-head attention") {
  using L = Mae<6, 4, 3, causal, left_out_heads<2>, gate_dim<5>, output_bias>;
  Module<L, Reference<double>> m(3);
  Module<MultiHead<6, 4, 3, causal, output_bias>, Reference<double>> dense(4);
  Module<L::mean, Reference<double>> mean(share_parameters{}, m);
  auto const& w = m.get<L::r::W_2>();
  std::fill_n(w.value.data, w.value.size(), 0.0);
  fill(m, 1, 5, L::b_o{});
  same_attention(m, dense);
  auto const numbers_x = numbers(54, 1);
  view<double const> const x(numbers_x.data(), 9, 6);
  auto const b = ragged(offsets.data(), 4);
  auto const y = dense.forward(x, b);
  CHECK(largest_difference(m.forward(x, b), y) < 1e-12);
  CHECK(largest_difference(mean.forward(x, b), y) < 1e-14);
}

TEST_CASE("mae: the mixture is the sum of the experts that the gate weighs") {
  using L = Mae<5, 4, 2, left_out_heads<2>, gate_dim<3>, output_bias>;
  using One = L::expert<choice::given>;
  Module<L, Reference<double>> m(3);
  Module<One, Reference<double>> one(share_parameters{}, m);
  fill(m, 1, 5, L::b_o{});
  fill(m, 2, 6, L::r::W_2{});
  auto const numbers_x = numbers(20, 1);
  view<double const> const x(numbers_x.data(), 4, 5);
  auto const y = m.forward(x);
  auto const g = m.program().get(L::g);
  REQUIRE(g.rows == 1);
  std::vector<double> mixed(20);
  for (Int e = 0; e < 6; ++e) {
    one.program().bind(One::of::expert{}, {&e, 1, 1});
    auto const f = one.forward(x);
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += g(0, e) * f.data[i];
  }
  CHECK(largest_difference(y, {mixed.data(), 4, 5}) < 1e-12);
}

TEST_CASE("mae: a dropped head has no gradient, nor has the gate") {
  using L = Mae<5, 3, 2, gate_dim<4>>;
  using One = L::expert<choice::given>;
  Module<L, Reference<double>> m(3);
  Module<One, Reference<double>> one(share_parameters{}, m);
  m.zero_gradients();
  auto const numbers_x = numbers(20, 1), numbers_dy = numbers(20, 2);
  Int const chosen[] = {1, 1};
  one.program().bind(One::of::expert{}, {chosen, 2, 1});
  one.forward(view<double const>(numbers_x.data(), 4, 5), uniform(2, 2));
  one.backward({numbers_dy.data(), 4, 5});
  auto const of_head = [](view<double> g, Index head) {
    double sum = 0;
    for (Index i = 0; i < g.rows; ++i) {
      for (Index j = 2 * head; j < 2 * head + 2; ++j) sum += std::abs(g(i, j));
    }
    return sum;
  };
  for (auto const& g : {m.get<L::W_q>().gradient, m.get<L::W_k>().gradient, m.get<L::W_v>().gradient,
                        m.get<L::W_o>().gradient.transposed()}) {
    CHECK(of_head(g, 0) > 0);
    CHECK(of_head(g, 1) == 0);
    CHECK(of_head(g, 2) > 0);
  }
  for (auto const& p : m.parameters()) {
    if (p.name[1] != '_' || (p.name[2] != '1' && p.name[2] != '2')) continue;
    for (Index i = 0; i < p.gradient.size(); ++i) CHECK(p.gradient.data[i] == 0);
  }
  one.zero_gradients();
  for (auto const& p : m.parameters()) {
    for (Index i = 0; i < p.gradient.size(); ++i) CHECK(p.gradient.data[i] == 0);
  }
}

TEST_CASE("mae: drawn experts follow the gate, sequence by sequence") {
  using L = Mae<3, 3, 2, gate_dim<4>, left_out_heads<1>>;
  using Drawn = L::expert<choice::drawn>;
  using Equal = L::expert<choice::uniform>;
  using Best = L::expert<choice::best>;
  constexpr Index n = 3000;
  Module<L, Reference<double>> m(3);
  Module<Drawn, Reference<double>> drawn(share_parameters{}, m);
  Module<Equal, Reference<double>> equal(share_parameters{}, m);
  Module<Best, Reference<double>> best(share_parameters{}, m);
  auto const& b = m.get<L::r::b_2>();
  auto const& w = m.get<L::r::W_2>();
  std::fill_n(w.value.data, w.value.size(), 0.0);
  double const probability[] = {0.2, 0.7, 0.1};
  for (Index e = 0; e < 3; ++e) b.value.data[e] = std::log(probability[e]);
  std::vector<double> const numbers_x(static_cast<std::size_t>(3 * n), 0.5);
  view<double const> const x(numbers_x.data(), n, 3);
  auto const shares = [&](auto& module) {
    module.set_randomness(randomness(9, 1, 2));
    module.forward(x, uniform(n, 1));
    std::array<double, 3> share{};
    auto const chosen = module.observed();
    REQUIRE(chosen.rows == n);
    for (Index i = 0; i < n; ++i) share[static_cast<std::size_t>(chosen(i, 0))] += 1.0 / n;
    return share;
  };
  auto const by_gate = shares(drawn), evenly = shares(equal), always = shares(best);
  for (std::size_t e = 0; e < 3; ++e) {
    CAPTURE(e);
    CHECK(std::abs(by_gate[e] - probability[e]) < 0.03);
    CHECK(std::abs(evenly[e] - 1.0 / 3) < 0.03);
  }
  CHECK(always[1] == doctest::Approx(1));
  std::vector<Int> first(static_cast<std::size_t>(n));
  std::copy_n(drawn.observed().data, n, first.begin());
  shares(drawn);
  CHECK(std::equal(first.begin(), first.end(), drawn.observed().data));
  drawn.set_randomness(randomness(9, 2, 2));
  drawn.forward(x, uniform(n, 1));
  CHECK_FALSE(std::equal(first.begin(), first.end(), drawn.observed().data));
}

/// A change of rows 4 and 5 changes no result before.
template <class L>
void check_past() {
  Module<L, Reference<double>> m(3);
  fill(m, 2, 6, typename L::r::W_2{});
  auto values = numbers(24, 1);
  view<double const> const x(values.data(), 6, 4);
  auto const y = m.forward(x);
  std::vector<double> const before(y.data, y.data + y.size());
  for (std::size_t i = 16; i < 24; ++i) values[i] += 1;
  auto const after = m.forward(x);
  for (Index i = 0; i < 16; ++i) CHECK(after.data[i] == before[static_cast<std::size_t>(i)]);
  CHECK(after.data[17] != before[17]);
}
TEST_CASE("mae: a causal layer does not see the future") {
  check_past<Mae<4, 3, 2, causal, pool::window<2>, gate_dim<4>>>();
  check_past<Mae<4, 3, 2, causal, gate_dim<4>>>();
  check_past<Mae<4, 3, 2, sliding_window<3>, gate_dim<4>>>();
}

}  // namespace mae_test
