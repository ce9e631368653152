// SPDX-License-Identifier: MIT
// gradcheck finds the faults for which it exists.

#include "headmix/testing/gradcheck.hpp"

#include <doctest/doctest.h>

#include <array>
#include <utility>

#include "headmix/expr/linear.hpp"
#include "headmix/expr/reduce.hpp"

using namespace headmix;

namespace {

struct C : size<3> {};
struct a : input<tokens, C> {};

/// The square, with a gradient wrong by a factor.
struct wrong_square : pointwise {
  template <class T>
  static T f(T x) {
    return x * x;
  }
  static constexpr auto vjp(auto dy, auto x, auto) { return grads(dy * x); }
};
/// A gradient with a wrong sign at one place.
struct wrong_at_zero : pointwise {
  template <class T>
  static T f(T x) {
    return x > T(0.99) ? -x : x;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(dy); }
};

/// Adds another number in every call: not reproducible.
struct drifting : Reference<double> {
  mutable double drift = 0;
  template <class T, class Tree>
  void map(view<T> y, Tree const& tree, bool accumulate) const {
    Reference<double>::map(y, tree, accumulate);
    if (y.size() > 0) y.data[0] += (drift += 1e-9);
  }
};

}  // namespace

TEST_CASE("gradcheck: accepts a right gradient") {
  auto const r = gradcheck(tanh(a{}) * a{}, at<tokens>(4));
  CHECK(r.ok());
  CHECK(r.error > 0);
  CHECK(r.error < 1e-8);
}
TEST_CASE("gradcheck: finds a wrong gradient and says where") {
  auto const r = gradcheck(make<wrong_square>(a{}), at<tokens>(4));
  CHECK_FALSE(r.ok());
  CHECK(r.error > 1e-2);
  CHECK(r.text.find(" of a: gradient ") != std::string::npos);
}
TEST_CASE("gradcheck: finds a single wrong element") {
  gradcheck_options o;
  o.low = 0.98;
  o.high = 1.0;
  CHECK_FALSE(gradcheck(make<wrong_at_zero>(a{}), o, at<tokens>(20)).ok());
  o.low = 0.5;
  o.high = 0.9;
  CHECK(gradcheck(make<wrong_at_zero>(a{}), o, at<tokens>(20)).ok());
}
TEST_CASE("gradcheck: a gradient that was left out is wrong") {
  CHECK_FALSE(gradcheck(a{} * detach(a{}), at<tokens>(4)).ok());
}
TEST_CASE("gradcheck: finds results that change from run to run") {
  auto const r = gradcheck_on(drifting{}, tanh(a{}), {}, at<tokens>(4));
  CHECK_FALSE(r.reproducible);
  CHECK_FALSE(r.ok());
}
TEST_CASE("gradcheck: another seed checks other numbers") {
  gradcheck_options one, two;
  two.seed = 2;
  CHECK(gradcheck(tanh(a{}), one, at<tokens>(4)).error != gradcheck(tanh(a{}), two, at<tokens>(4)).error);
}
TEST_CASE("gradcheck: the sequences alone say how many tokens there are") {
  std::array<Int, 3> const offsets{0, 3, 7};
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 2);
  gradcheck_result r;
  CHECK_NOTHROW(r = gradcheck(tanh(a{}), o));
  CHECK(r.error > 0);
}
TEST_CASE("gradcheck: a result that is a view") {
  struct w : param<C, C> {};
  CHECK(gradcheck(t(exp(a{} % w{})), at<tokens>(4)).ok());
  CHECK(gradcheck(t(a{}), at<tokens>(4)).ok());
}
TEST_CASE("gradcheck: names what is detached") {
  struct w : param<C, C> {};
  auto const r = gradcheck(a{} / detach(row_sum(a{} % w{})), at<tokens>(4));
  CHECK(r.detached == std::vector<std::string>{"detach(row_sum(matmul(...)))"});
  CHECK_FALSE(r.ok());
  CHECK(r.text.ends_with("; detached: detach(row_sum(matmul(...))) (not in gradcheck_options::detached)"));
  CHECK(gradcheck(a{} * straight_through(a{}, tanh(a{})), at<tokens>(4)).detached.size() == 1);
  CHECK(gradcheck(tanh(a{}), at<tokens>(4)).detached.empty());
}
TEST_CASE("gradcheck: a detached value fails unless it is named, also where no gradient is lost") {
  struct b : bias_param<C> {};
  constexpr auto y = softmax(a{} + row_sum(detach(b{})));
  auto const r = gradcheck(y, at<tokens>(4));
  CHECK(r.error < 1e-8);
  CHECK_FALSE(r.ok());
  CHECK(r.not_named == std::vector<std::string>{"detach(b)"});
  auto const named = gradcheck(y, {.detached = {"detach(c)", "detach(b)"}}, at<tokens>(4));
  CHECK(named.ok());
  CHECK(named.detached == r.detached);
  CHECK(named.not_named.empty());
  CHECK_FALSE(gradcheck(y, {.detached = {"detach(c)"}}, at<tokens>(4)).ok());
  CHECK_FALSE(gradcheck(a{} * detach(a{}), {.detached = {"detach(a)"}}, at<tokens>(4)).ok());
}
TEST_CASE("gradcheck: leaves of one name are told apart") {
  struct second {
    struct a : input<tokens, C> {};
  };
  auto const r = gradcheck(make<wrong_square>(a{}) + second::a{}, at<tokens>(4));
  CHECK(r.text.find("second::a:") == std::string::npos);
  CHECK(r.text.find(" of a: ") == std::string::npos);
  CHECK(r.text.find("::a: ") != std::string::npos);
}
