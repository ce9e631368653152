// SPDX-License-Identifier: MIT
// BitLinear: the numbers of its formula, and straight-through gradients.

#include <algorithm>
#include <array>
#include <vector>

#include "headmix/expr/norm.hpp"
#include "headmix/expr/quantize.hpp"
#include "published.hpp"

namespace bit_linear_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct In : size<8> {};
struct Out : size<3> {};
struct x : input<tokens, In> {};
struct W : param<In, Out> {};
struct gain : constant<In> {};

template <class Y>
struct BitLinear {
  TestProgram<roots<Y>> p{at<tokens>(2)};
  std::vector<double> y;
  BitLinear() {
    for (Index i = 0; i < 16; ++i) p.in(x{}).data[i] = S(2.3, i);
    if constexpr (detail::contains<leaves_of<roots<Y>>, W>) {
      for (Index i = 0; i < 8; ++i) {
        for (Index j = 0; j < 3; ++j) p.in(W{})(i, j) = S(1.1, j * 8 + i);
      }
    }
    if constexpr (detail::contains<leaves_of<roots<Y>>, gain>) std::fill_n(p.in(gain{}).data, 8, 1.0);
    auto const v = p.forward();
    y.assign(v.data, v.data + v.size());
  }
};

TEST_CASE("BitLinear gives the numbers of its formula") {
  BitLinear<type_of<decltype(bit_linear(x{}, W{}))>> plain;
  std::array const expected{-.2682849685, -.1063015913, -.5973137035, -.1576800376};
  for (std::size_t i = 0; i < 4; ++i) CHECK(golden(plain.y[i], expected[i]));
  CHECK(golden(total(plain.y), -1.8416836964));

  using eps = number<1, 1'000'000>;
  BitLinear<type_of<decltype(bit_linear(rms_norm<eps>(x{}, gain{}), W{}))>> normed;
  std::array const with_norm{-.3832846559, -.1518675052, -.8533507434, -.2184219425};
  for (std::size_t i = 0; i < 4; ++i) CHECK(golden(normed.y[i], with_norm[i]));
  CHECK(golden(total(normed.y), -2.5933465228));
}
TEST_CASE("the integers of BitLinear") {
  BitLinear<type_of<decltype(absmax_int8(x{}))>> activations;
  std::array const q{95., -127., 74., 28., -112., 121., -49., -56.};
  double largest = 0;
  for (std::size_t i = 0; i < 8; ++i) largest = std::max(largest, std::abs(S(2.3, static_cast<Index>(i))));
  for (std::size_t i = 0; i < 8; ++i) CHECK(close(activations.y[i] * 127 / largest, q[i]));

  TestProgram<roots<type_of<decltype(absmean_ternary(W{}))>>> p;
  double mean = 0;
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 3; ++j) p.in(W{})(i, j) = S(1.1, j * 8 + i), mean += std::abs(p.in(W{})(i, j)) / 24;
  }
  auto const w = p.forward();
  std::array const signs{1., 1., 0., -1., -1., 0., 1., 1.};
  for (std::size_t i = 0; i < 8; ++i) CHECK(close(w(static_cast<Index>(i), 0) / mean, signs[i]));
}

TEST_CASE("gradients of ternary products: those of the rounded operands") {
  BitLinear<type_of<decltype(bit_linear(x{}, W{}))>> b;
  b.p.zero_gradients();
  b.p.backward();
  TestProgram<roots<type_of<decltype(absmax_int8(x{}))>>> rounded_x{at<tokens>(2)};
  rounded_x.values(x{}) = b.p.values(x{});
  auto const x_q = rounded_x.forward();
  TestProgram<roots<type_of<decltype(absmean_ternary(W{}))>>> rounded_w;
  rounded_w.values(W{}) = b.p.values(W{});
  auto const w_q = rounded_w.forward();
  auto const dx = b.p.gradient(x{}), dw = b.p.gradient(W{});
  for (Index t = 0; t < 2; ++t) {
    for (Index i = 0; i < 8; ++i) {
      double sum = 0;
      for (Index j = 0; j < 3; ++j) sum += b.p.dy(t, j) * w_q(i, j);
      CHECK(close(dx(t, i), sum));
    }
  }
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 3; ++j) CHECK(close(dw(i, j), x_q(0, i) * b.p.dy(0, j) + x_q(1, i) * b.p.dy(1, j)));
  }
}

}  // namespace

}  // namespace bit_linear_test
