// SPDX-License-Identifier: MIT
// MoA's options: padding against the numbers of the published code, cross-attention, biases, several key/value heads,
// rotary embedding, noise and dropout.

#include "../program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/core/padding.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "published.hpp"

using namespace headmix;
using namespace headmix::test;

namespace {

/// The published code divides by the sum + 1e-6 where the lines that do it are not commented out.
struct published_detached : gating::policy {
  template <Expr P>
  static constexpr auto weights(P p) {
    return p / detach(row_sum(p) + number<1, 1'000'000>{});
  }
};

template <class Y, class... Loss>
roots<Y, Loss...> roots_of(Y, type_list<Loss...>);
template <class L>
using layer_roots = decltype(roots_of(type_of<decltype(L::y)>{}, typename L::losses{}));

constexpr auto every_bias = [](auto... options) {
  return Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, query_bias, key_bias, value_bias, output_bias,
             decltype(options)...>{};
};

}  // namespace

TEST_CASE("moa options: the published numbers with padding of queries and keys") {
  using L = Moa<8, 4, SoftmaxTopK<6, 2, gating::raw, loss::load_balance, loss::z_with_padding, loss::cv_squared>,
                causal, padded>;
  std::vector<std::uint8_t> const mask{1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 5));
  gradcheck_options options;
  options.token_sequences = real.sequences();
  Program<layer_roots<L>> p(options, at<padded_tokens>(10));
  std::copy_n(real.real_rows().data, 8, p.values(L::kept{}).data());
  fill_as_published<L>(p);
  auto const y = p.forward();
  std::vector<double> const y_values(y.data, y.data + y.size());
  p.backward({0, 0, 0});
  CHECK(golden(total(y_values), 3.0169557327));
  CHECK(golden(squares(y_values), 6.0605967161));
  for (Index j = 0; j < 8; ++j) CHECK((y(8, j) == 0 && y(9, j) == 0));
  auto const loss = [&]<class... Loss>(type_list<Loss...>) { return std::vector<double>{p.tape.get(Loss{})(0, 0)...}; };
  auto const losses = loss(typename L::losses{});
  CHECK(golden(losses[0], 1.2394047575));
  CHECK(golden(losses[1], 17.3416197280));
  CHECK(golden(losses[2], 0.4203903, 1e-6));
  CHECK(golden(total(p.gradients(L::x{})), 0.4369603358));
  CHECK(golden(squares(p.gradients(L::x{})), 0.5075632579));
  CHECK(golden(squares(p.gradients(L::r::W_g{})), 0.2411376122));
  CHECK(golden(squares(p.gradients(L::W_q{})), 0.0332591021));
  CHECK(golden(squares(p.gradients(L::W_o{})), 8.5343720247));
  CHECK(golden(squares(p.gradients(L::W_k{})), 0.0517626245));
  CHECK(golden(squares(p.gradients(L::W_v{})), 0.1820566283));
  // Rows of padding have a gradient by the z-loss, and by nothing else.
  for (Index j = 0; j < 8; ++j) CHECK(p.gradient(L::x{})(9, j) == 0);
  p.zero_gradients();
  p.backward({0, 1, 0});
  bool some = false;
  for (Index j = 0; j < 8; ++j) some = some || p.gradient(L::x{})(9, j) != 0;
  CHECK(some);
}
TEST_CASE("moa options: the published numbers of a gating of one's own") {
  using L = Moa<8, 4, SoftmaxTopK<6, 2, published_detached, loss::cv_squared>, causal>;
  gradcheck_options options;
  options.token_sequences = uniform(2, 5);
  Program<layer_roots<L>> p(options);
  fill_as_published<L>(p);
  auto const y = p.forward();
  p.backward({0});
  CHECK(golden(y(0, 0), 0.1419696122));
  CHECK(golden(y(0, 3), -0.6284069449));
  auto const loss = [&]<class Loss>(type_list<Loss>) { return p.tape.get(Loss{})(0, 0); };
  CHECK(golden(loss(L::losses{}), 0.1065571, 1e-6));
  CHECK(golden(total(p.gradients(L::x{})), 0.4080538967));
  CHECK(golden(squares(p.gradients(L::x{})), 0.7334741557, 2e-6));
  auto const& d_g = p.gradients(L::r::W_g{});
  CHECK(golden(d_g[0], -0.0461696231));
  CHECK(golden(d_g[3], -0.1042715663));
  CHECK(golden(squares(d_g), 0.5401746155));
  CHECK(golden(squares(p.gradients(L::W_o{})), 10.7310967355));
}
TEST_CASE("moa options: gradients with every bias, two key/value heads and rotary embedding") {
  using L = decltype(every_bias(kv_heads<2>{}, rope<>{}, causal{}));
  for (Index const rows : {0, 1, 6}) {
    auto const r = gradcheck(L::y, at<tokens>(rows));
    CAPTURE(rows);
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}
TEST_CASE("moa options: gradients of cross-attention with padding of both inputs and every loss") {
  using L = Moa<5, 3, SoftmaxTopK<4, 2, gating::raw, loss::z_with_padding>, memory_width<3>, padded>;
  std::vector<std::uint8_t> const mask{1, 0, 1, 1, 1, 0}, memory_mask{0, 1, 0, 0, 0, 0, 1, 1};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 3));
  Padding const memory(view<std::uint8_t const>(memory_mask.data(), 2, 4));
  gradcheck_options options;
  options.token_sequences = real.sequences();
  options.memory_sequences = memory.sequences();
  constexpr auto objective = []<class Z>(type_list<Z>) { return L::y + Z{}; };
  constexpr auto y = objective(L::losses{});
  auto const r = gradcheck(y, options, at<padded_tokens>(6), at<padded_memory_tokens>(8));
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("moa options: gradients with noise and both dropouts, on the cpu too") {
  using L = Moa<6, 4, NoisyTopK<5, 2>, probability_dropout<1, 4>, output_dropout<1, 5>>;
  auto const r = gradcheck(L::y, at<tokens>(7));
  CAPTURE(r.text);
  CHECK(r.ok());
  auto const on_cpu = gradcheck_on(Cpu<double>{}, L::y, {}, at<tokens>(7));
  CAPTURE(on_cpu.text);
  CHECK(on_cpu.ok());
}
TEST_CASE("moa options: all experts of several heads with a router of zeros are grouped-query attention, averaged") {
  using L = Moa<6, 4, SoftmaxTopK<3, 3, gating::renormalized>, kv_heads<2>, causal>;
  using M = MultiHead<6, 6, 4, causal, 2>;
  Program<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7));
  Program<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
  p.values(L::r::W_g{}).assign(18, 0.0);
  q.values(M::x{}) = p.values(L::x{});
  q.values(M::W_k{}) = p.values(L::W_k{});
  q.values(M::W_v{}) = p.values(L::W_v{});
  for (Index e = 0; e < 3; ++e) {
    // The heads of a key/value head lie side by side in M, in L they are apart.
    for (Index head = 0; head < 2; ++head) {
      for (Index c = 0; c < 4; ++c) {
        for (Index i = 0; i < 6; ++i) {
          q.in(M::W_q{})(i, (head * 3 + e) * 4 + c) = p.in(L::W_q{})[e](i, head * 4 + c);
          q.in(M::W_o{})((head * 3 + e) * 4 + c, i) = p.in(L::W_o{})[e](head * 4 + c, i);
        }
      }
    }
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i] / 3));
}
TEST_CASE("moa options: a module draws anew at every pass, not at all when told, and alike for a part of the batch") {
  using L = Moa<6, 4, NoisyTopK<5, 2>, output_dropout<1, 5>>;
  Module<L, Cpu<double>> m(1);
  std::vector<double> x(36);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  auto const run = [&](Index first, Index rows) {
    auto const y = m.forward({x.data() + first * 6, rows, 6}, uniform(rows / 3, 3));
    return std::vector<double>(y.data, y.data + y.size());
  };
  auto const one = run(0, 6), two = run(0, 6);
  CHECK(one != two);
  m.set_randomness(randomness(5, 1));
  auto const whole = run(0, 6);
  CHECK(run(0, 6) == whole);
  m.set_randomness(randomness(5, 1, 0, 3));
  CHECK(run(3, 3) == std::vector<double>(whole.begin() + 18, whole.end()));
  m.set_randomness(randomness::off());
  auto const still = run(0, 6);
  CHECK(still != whole);
  Module<L, Cpu<double>, inference> evaluate(1);
  auto const y = evaluate.forward({x.data(), 6, 6}, uniform(2, 3));
  CHECK(std::vector<double>(y.data, y.data + y.size()) == still);
}
TEST_CASE("moa options: a module of a padded layer, and what it refuses") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2>, memory_width<3>, padded>;
  Module<L, Cpu<double>> m(1);
  std::vector<double> x(36), memory(12), dy(36, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(2).normal(i);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = Random(3).normal(i);
  std::vector<std::uint8_t> const mask{1, 0, 1, 1, 1, 0}, memory_mask{1, 1, 1, 0};
  Padding const real(view<std::uint8_t const>(mask.data(), 2, 3));
  Padding const of_memory(view<std::uint8_t const>(memory_mask.data(), 2, 2));
  view<double const> const in(x.data(), 6, 6), other(memory.data(), 4, 3);
  auto const y = m.forward(in, real, other, of_memory);
  m.backward({dy.data(), 6, 6}, {0.1, 0.1});
  for (Index j = 0; j < 6; ++j) {
    CHECK((y(1, j) == 0 && y(5, j) == 0 && y(0, j) != 0));
    CHECK((m.input_gradient()(1, j) == 0 && m.input_gradient()(0, j) != 0));
  }
  for (Index j = 0; j < 3; ++j) CHECK((m.memory_gradient()(3, j) == 0 && m.memory_gradient()(0, j) != 0));
  CHECK_THROWS_WITH_AS(m.forward(in, uniform(2, 3), other, of_memory), doctest::Contains("the layer is padded"), Error);
  CHECK_THROWS_WITH_AS(m.forward(in, real, other, uniform(2, 2)), doctest::Contains("Padding of memory"), Error);
  CHECK_THROWS_WITH_AS(m.forward({x.data(), 5, 6}, real, other, of_memory),
                       doctest::Contains("x has 5 rows, its Padding is about 6"), Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(Padding(view<std::uint8_t const>(nullptr, 0, 3))),
                       doctest::Contains("no sequences"), Error);
}
namespace {
/// The largest gradient of the key bias, in float.
template <class L>
float key_bias_gradient() {
  Program<roots<type_of<decltype(L::y)>>, training, float> p(at<tokens>(7));
  p.forward();
  p.backward();
  float largest = 0;
  for (float const g : p.gradients(typename L::b_k{})) largest = std::max(largest, std::abs(g));
  return largest;
}
}  // namespace
TEST_CASE("moa options: a key bias moves all scores of a query alike, so its gradient is 0 to the bit") {
  CHECK(key_bias_gradient<Moa<6, 4, SoftmaxTopK<5, 2>, causal, key_bias>>() == 0);
  CHECK(key_bias_gradient<Moa<6, 4, SoftmaxTopK<5, 2>, causal, key_bias, rope<>>>() > 1e-4f);
}
