// SPDX-License-Identifier: MIT
// Pointwise operations: values by hand, gradients by differences, every way of broadcasting.

#include "headmix/expr/pointwise.hpp"

#include "../test_program.hpp"

namespace pointwise_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct C : size<5> {};
struct a : input<tokens, C> {};
struct b : input<tokens, C> {};
struct row : param<C> {};
struct col : input<tokens, size<1>> {};
struct one : param<size<1>> {};

gradcheck_options const positive{.low = 0.5, .high = 1.5};

/// Element (i, j) of a leaf, repeated along extents of one.
template <Leaf L>
double at_element(auto& p, L, Index i, Index j) {
  return p.in(L{})(rows<L>::value == 1 ? 0 : i, cols<L>::value == 1 ? 0 : j);
}

struct plus_ {
  auto operator()(auto x, auto y) const { return x + y; }
};
struct minus {
  auto operator()(auto x, auto y) const { return x - y; }
};
struct times_ {
  auto operator()(auto x, auto y) const { return x * y; }
};
struct over_ {
  auto operator()(auto x, auto y) const { return x / y; }
};

template <class Op, Leaf L, Leaf R>
void binary(Op op, L, R) {
  check(
      op(L{}, R{}), [op](auto& p, Index i, Index j) { return op(at_element(p, L{}, i, j), at_element(p, R{}, i, j)); },
      positive);
}
template <class Op, class F>
void unary(Op, F f, gradcheck_options const& o = {.low = -2, .high = 2}) {
  check(
      make<Op>(a{}), [f](auto& p, Index i, Index j) { return f(p.in(a{})(i, j)); }, o);
}

/// A user's own function.
struct cube : pointwise {
  template <class T>
  static T f(T x) {
    return x * x * x;
  }
  static constexpr auto vjp(auto dy, auto x, auto) { return grads(number<3>{} * dy * x * x); }
};
static_assert(ScalarOp<cube>);

}  // namespace

TEST_CASE("add: equal extents") { binary(plus_{}, a{}, b{}); }
TEST_CASE("add: [T,C] and [1,C]") { binary(plus_{}, a{}, row{}); }
TEST_CASE("add: [T,1] and [T,C]") { binary(plus_{}, col{}, a{}); }
TEST_CASE("add: [T,C] and [1,1]") { binary(plus_{}, a{}, one{}); }
TEST_CASE("add: [1,C] and [T,1]") { binary(plus_{}, row{}, col{}); }

TEST_CASE("subtract: equal extents") { binary(minus{}, a{}, b{}); }
TEST_CASE("subtract: [1,C] and [T,C]") { binary(minus{}, row{}, a{}); }
TEST_CASE("subtract: [T,C] and [T,1]") { binary(minus{}, a{}, col{}); }
TEST_CASE("subtract: [1,1] and [T,C]") { binary(minus{}, one{}, a{}); }
TEST_CASE("subtract: [T,1] and [1,C]") { binary(minus{}, col{}, row{}); }

TEST_CASE("multiply: equal extents") { binary(times_{}, a{}, b{}); }
TEST_CASE("multiply: [T,C] and [1,C]") { binary(times_{}, a{}, row{}); }
TEST_CASE("multiply: [T,C] and [T,1]") { binary(times_{}, a{}, col{}); }
TEST_CASE("multiply: [1,1] and [T,C]") { binary(times_{}, one{}, a{}); }
TEST_CASE("multiply: [1,C] and [T,1]") { binary(times_{}, row{}, col{}); }

TEST_CASE("divide: equal extents") { binary(over_{}, a{}, b{}); }
TEST_CASE("divide: [T,C] and [1,C]") { binary(over_{}, a{}, row{}); }
TEST_CASE("divide: [T,C] and [T,1]") { binary(over_{}, a{}, col{}); }
TEST_CASE("divide: [1,1] and [T,C]") { binary(over_{}, one{}, a{}); }
TEST_CASE("divide: [T,1] and [1,C]") { binary(over_{}, col{}, row{}); }

TEST_CASE("multiply: a value by itself") {
  check(square(a{}), [](auto& p, Index i, Index j) { return p.in(a{})(i, j) * p.in(a{})(i, j); });
}
TEST_CASE("negate") {
  unary(ops::negate{}, [](double x) { return -x; });
}
TEST_CASE("exp") {
  unary(ops::exp{}, [](double x) { return std::exp(x); });
}
TEST_CASE("log") {
  unary(
      ops::log{}, [](double x) { return std::log(x); }, positive);
}
TEST_CASE("sqrt") {
  unary(
      ops::sqrt{}, [](double x) { return std::sqrt(x); }, positive);
}
TEST_CASE("tanh") {
  unary(ops::tanh{}, [](double x) { return std::tanh(x); });
}
TEST_CASE("sigmoid") {
  unary(ops::sigmoid{}, [](double x) { return 1 / (1 + std::exp(-x)); });
}
TEST_CASE("sigmoid: keeps its range far out") {
  TestProgram<roots<type_of<decltype(sigmoid(row{}))>>> p;
  p.values(row{}) = {-1000, -40, 0, 40, 1000};
  auto const y = p.forward();
  CHECK(y(0, 0) == 0);
  CHECK(close(y(0, 1) * std::exp(40), 1));
  CHECK(y(0, 2) == 0.5);
  CHECK(y(0, 4) == 1);
}
TEST_CASE("silu") {
  check(silu(a{}), [](auto& p, Index i, Index j) {
    double const x = p.in(a{})(i, j);
    return x / (1 + std::exp(-x));
  });
}
TEST_CASE("gelu: the exact form") {
  check(gelu(a{}), [](auto& p, Index i, Index j) {
    double const x = p.in(a{})(i, j);
    return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  });
}
TEST_CASE("gelu_tanh: the approximation of gelu by tanh") {
  check(gelu_tanh(a{}), [](auto& p, Index i, Index j) {
    double const x = p.in(a{})(i, j);
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  });
  TestProgram<roots<type_of<decltype(gelu_tanh(row{}))>>> p;
  p.values(row{}) = {-1000, -8, 0, 8, 1000};
  auto const y = p.forward();
  p.backward();
  double const expected[] = {0, 0, 0, 8, 1000}, slopes[] = {0, 0, 0.5, 1, 1};
  for (Index j = 0; j < 5; ++j) {
    CHECK(close(y(0, j), expected[j], 1e-10));
    CHECK(close(p.gradient(row{})(0, j), slopes[j] * p.dy(0, j), 1e-10));
  }
}
TEST_CASE("relu: gradient away from the kink") {
  check(
      relu(a{}) + number<3>{} * relu(-a{}), [](auto& p, Index i, Index j) { return p.in(a{})(i, j); }, positive);
  check(
      relu(a{} - number<5>{}) + a{}, [](auto& p, Index i, Index j) { return p.in(a{})(i, j); }, positive);
}
TEST_CASE("relu: zero and below give zero, with gradient zero") {
  TestProgram<roots<type_of<decltype(relu(row{}))>>> p;
  p.values(row{}) = {-2, -0.0, 0, 0.5, 3};
  auto const y = p.forward();
  for (Index j = 0; j < 5; ++j) CHECK(y(0, j) == (j < 3 ? 0 : p.in(row{})(0, j)));
  p.backward();
  for (Index j = 0; j < 5; ++j) CHECK(p.gradient(row{})(0, j) == (j < 3 ? 0 : p.dy(0, j)));
}
TEST_CASE("detach: the value, with gradient zero") {
  TestProgram<roots<type_of<decltype(a{} * detach(b{}))>>> p(at<tokens>(4));
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 5; ++j) {
      CHECK(y(i, j) == p.in(a{})(i, j) * p.in(b{})(i, j));
      CHECK(p.gradient(a{})(i, j) == p.dy(i, j) * p.in(b{})(i, j));
      CHECK(p.gradient(b{})(i, j) == 0);
    }
  }
}
TEST_CASE("detach: a straight-through estimator has the value of one and the gradient of the other") {
  struct m : input<tokens, C> {};
  struct q : input<tokens, C> {};
  TestProgram<roots<type_of<decltype(q{} + detach(m{} - q{}))>>> p(at<tokens>(3));
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 5; ++j) {
      CHECK(close(y(i, j), p.in(m{})(i, j)));
      CHECK(p.gradient(q{})(i, j) == p.dy(i, j));
      CHECK(p.gradient(m{})(i, j) == 0);
    }
  }
}
TEST_CASE("wide: the value, with the gradient of the value") {
  check(upcast(a{}) * b{}, [](auto& p, Index i, Index j) { return p.in(a{})(i, j) * p.in(b{})(i, j); });
}
TEST_CASE("number: whole, fraction and negative") {
  check(number<3>{} * a{} + number<-1, 4>{}, [](auto& p, Index i, Index j) { return 3 * p.in(a{})(i, j) - 0.25; });
}
TEST_CASE("number: literals are reduced fractions with the values of their doubles") {
  static_assert(std::is_same_v<decltype(2.5_n), number<5, 2>> && std::is_same_v<decltype(0.10_n), number<1, 10>>);
  static_assert(std::is_same_v<decltype(0_n), number<0>> && std::is_same_v<decltype(0.0_n), number<0>>);
  static_assert(std::is_same_v<decltype(10'000_n), number<10'000>> && std::is_same_v<decltype(.5_n), number<1, 2>>);
  static_assert(std::is_same_v<decltype(1.5E+3_n), number<1500>> && std::is_same_v<decltype(100.000_n), number<100>>);
  static_assert(std::is_same_v<decltype(1e-6_n), number<1, 1'000'000>>);
  static_assert(std::is_same_v<decltype(2.5_n * a{}), decltype(number<5, 2>{} * a{})>);
  static_assert(std::is_same_v<decltype(-2.5_n), number<-5, 2>>);
  static_assert((3.14159265358979_n).value<double>(0) == 3.14159265358979);
  static_assert((0.1_n).value<double>(0) == 0.1 && (1.00203e-12_n).value<double>(0) == 1.00203e-12);
  check((1_n - 2.5_n * a{}) / 4_n + a{} / 0.5_n - -2_n,
        [](auto& p, Index i, Index j) { return (1 - 2.5 * p.in(a{})(i, j)) / 4 + p.in(a{})(i, j) / 0.5 + 2; });
  check(
      3_n / a{} - a{} + 0.25_n, [](auto& p, Index i, Index j) { return 3 / p.in(a{})(i, j) - p.in(a{})(i, j) + 0.25; },
      positive);
}
TEST_CASE("value_of: the run-time value of an extent") {
  check(a{} / value_of<C>{} + value_of<tokens>{},
        [](auto& p, Index i, Index j) { return p.in(a{})(i, j) / 5 + static_cast<double>(p.in(a{}).rows); });
}
TEST_CASE("pointwise: a user's own function needs only f and vjp") {
  unary(cube{}, [](double x) { return x * x * x; });
}
TEST_CASE("pointwise: one expression of many operations") {
  check(tanh(a{} * row{} - exp(-b{})) / (number<2>{} + sigmoid(col{})) * one{}, [](auto& p, Index i, Index j) {
    double const c = p.in(col{})(i, 0);
    return std::tanh(p.in(a{})(i, j) * p.in(row{})(0, j) - std::exp(-p.in(b{})(i, j))) / (2 + 1 / (1 + std::exp(-c))) *
           p.in(one{})(0, 0);
  });
}
TEST_CASE("pointwise: a stack of matrices, element by element") {
  struct W : param<size<3>, size<2>, C> {};
  struct V : param<size<3>, size<2>, C> {};
  TestProgram<roots<type_of<decltype(W{} * V{} + row{})>>> p;
  auto const y = p.forward();
  CHECK(y.count == 3);
  for (Index e = 0; e < 3; ++e) {
    for (Index i = 0; i < 2; ++i) {
      for (Index j = 0; j < 5; ++j)
        CHECK(close(y[e](i, j), p.in(W{})[e](i, j) * p.in(V{})[e](i, j) + p.in(row{})(0, j)));
    }
  }
  CHECK(gradcheck(W{} * V{} + row{}).ok());
}

}  // namespace pointwise_test
