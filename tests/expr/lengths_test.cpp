// SPDX-License-Identifier: MIT
// Functions with kinks, and values with the gradient of another value: lengths, maximum, straight-through.

#include <algorithm>
#include <cmath>

#include "../test_program.hpp"
#include "headmix/expr/reduce.hpp"

namespace lengths_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct C : size<5> {};
struct a : input<tokens, C> {};
struct b : input<tokens, C> {};
struct col : input<tokens, size<1>> {};

}  // namespace

TEST_CASE("length: the root of a sum of squares, of gradient zero at zero") {
  check(safe_sqrt(row_sum(square(a{}))),
        [](auto& p, Index i, Index) {
          double sum = 0;
          for (Index c = 0; c < 5; ++c) sum += p.in(a{})(i, c) * p.in(a{})(i, c);
          return std::sqrt(sum);
        },
        {.low = -2, .high = 2});
  TestProgram<roots<type_of<decltype(safe_sqrt(row_sum(square(a{}))))>>> p(at<tokens>(2));
  std::fill_n(p.values(a{}).begin(), 5, 0.0);
  CHECK(p.forward()(0, 0) == 0);
  p.backward();
  for (Index j = 0; j < 5; ++j) {
    CHECK(p.gradient(a{})(0, j) == 0);
    CHECK(p.gradient(a{})(1, j) != 0);
  }
}
TEST_CASE("at_least: the larger one, and its gradient") {
  check(maximum(a{}, b{}), [](auto& p, Index i, Index j) { return std::max(p.in(a{})(i, j), p.in(b{})(i, j)); });
  check(maximum(a{}, number<1, 4>{}), [](auto& p, Index i, Index j) { return std::max(p.in(a{})(i, j), 0.25); });
  check_gradient(maximum(a{}, col{}));
  // If both are equal, the second one gets the gradient.
  TestProgram<roots<type_of<decltype(maximum(a{}, b{}))>>> p(at<tokens>(1));
  p.values(a{}) = p.values(b{});
  p.forward();
  p.backward();
  for (Index j = 0; j < 5; ++j) CHECK((p.gradient(a{})(0, j) == 0 && p.gradient(b{})(0, j) == p.dy(0, j)));
}
TEST_CASE("straight_through: the value of one, the gradient of the other") {
  using Y = type_of<decltype(straight_through(a{}, tanh(b{})))>;
  using Twin = type_of<decltype(tanh(b{}) + detach(a{} - tanh(b{})))>;
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<Y>> p(at<tokens>(rows));
    TestProgram<roots<Twin>> q(at<tokens>(rows));
    q.values(a{}) = p.values(a{});
    q.values(b{}) = p.values(b{});
    auto const y = p.forward(), z = q.forward();
    for (Index i = 0; i < y.size(); ++i) {
      CHECK(y.data[i] == p.values(a{})[static_cast<std::size_t>(i)]);
      CHECK(close(y.data[i], z.data[i]));
    }
    p.backward();
    q.backward();
    for (double const g : p.gradients(a{})) CHECK(g == 0);
    for (std::size_t i = 0; i < p.gradients(b{}).size(); ++i) {
      CHECK(p.gradients(b{})[i] != 0);
      CHECK(close(p.gradients(b{})[i], q.gradients(b{})[i]));
    }
  }
}

}  // namespace lengths_test
