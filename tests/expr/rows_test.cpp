// SPDX-License-Identifier: MIT
// Row functions: softmax, log-sum-exp, normalisations, losses.

#include <limits>

#include "../test_program.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"

namespace rows_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct C : size<5> {};
struct K : size<2> {};
struct z : input<tokens, C> {};
struct logits : param<C> {};
struct gain : param<C> {};
struct bias : param<C> {};
struct target : selection<tokens, size<1>, C> {};
struct chosen : selection<tokens, K, C> {};

double row_log_sum_exp(view<double> a, Index i) {
  double sum = 0;
  for (Index k = 0; k < a.cols; ++k) sum += std::exp(a(i, k));
  return std::log(sum);
}
double const infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("softmax") {
  check(softmax(z{}),
        [](auto& p, Index i, Index j) { return std::exp(p.in(z{})(i, j) - row_log_sum_exp(p.in(z{}), i)); });
}
TEST_CASE("softmax: neither overflows nor minds minus infinity") {
  TestProgram<roots<type_of<decltype(softmax(logits{}))>>> p;
  p.values(logits{}) = {1000, 1000 + std::log(3.0), -infinity, -1000, -infinity};
  auto const y = p.forward();
  CHECK(close(y(0, 0), 0.25));
  CHECK(close(y(0, 1), 0.75));
  CHECK(y(0, 2) == 0);
  CHECK(y(0, 3) == 0);
  p.backward();
  for (double const g : p.gradients(logits{})) CHECK(std::isfinite(g));
}
TEST_CASE("softmax: a row of minus infinities gives zeros and gradients of zero") {
  TestProgram<roots<type_of<decltype(softmax(logits{}))>>> p;
  p.values(logits{}).assign(5, -infinity);
  auto const y = p.forward();
  p.backward();
  for (Index j = 0; j < 5; ++j) {
    CHECK(y(0, j) == 0);
    CHECK(p.gradient(logits{})(0, j) == 0);
  }
}
TEST_CASE("softmax: of one column is one, with gradient zero") {
  struct single : input<tokens, size<1>> {};
  check(softmax(single{}), [](auto&, Index, Index) { return 1.0; });
}
TEST_CASE("log_sum_exp") {
  check(log_sum_exp(z{}), [](auto& p, Index i, Index) { return row_log_sum_exp(p.in(z{}), i); });
}
TEST_CASE("log_sum_exp: does not overflow") {
  TestProgram<roots<type_of<decltype(log_sum_exp(logits{}))>>> p;
  p.values(logits{}) = {900, 900, 900, 900, -infinity};
  CHECK(close(p.forward()(0, 0), 900 + std::log(4.0)));
  p.backward();
  CHECK(close(p.gradient(logits{})(0, 0), 0.25 * p.dy(0, 0)));
  CHECK(p.gradient(logits{})(0, 4) == 0);
}
TEST_CASE("softmax: of rounded-up products, through a pointwise operand") {
  check_gradient(softmax(z{} * gain{} - bias{}));
}
TEST_CASE("layer_norm") {
  check(layer_norm(z{}, gain{}, bias{}), [](auto& p, Index i, Index j) {
    auto const a = p.in(z{});
    double mean = 0, variance = 0;
    for (Index k = 0; k < 5; ++k) mean += a(i, k) / 5;
    for (Index k = 0; k < 5; ++k) variance += (a(i, k) - mean) * (a(i, k) - mean) / 5;
    return (a(i, j) - mean) / std::sqrt(variance + 1e-5) * p.in(gain{})(0, j) + p.in(bias{})(0, j);
  });
}
TEST_CASE("layer_norm: a constant row gives the bias, with finite gradients") {
  TestProgram<roots<type_of<decltype(layer_norm(z{}, gain{}, bias{}))>>> p(at<tokens>(1));
  p.values(z{}).assign(5, 0.75);
  auto const y = p.forward();
  p.backward();
  for (Index j = 0; j < 5; ++j) {
    CHECK(close(y(0, j), p.in(bias{})(0, j)));
    CHECK(std::isfinite(p.gradient(z{})(0, j)));
  }
}
TEST_CASE("rms_norm: with an custom eps") {
  check(rms_norm<number<1, 10>>(z{}, gain{}), [](auto& p, Index i, Index j) {
    auto const a = p.in(z{});
    double squares = 0;
    for (Index k = 0; k < 5; ++k) squares += a(i, k) * a(i, k) / 5;
    return a(i, j) / std::sqrt(squares + 0.1) * p.in(gain{})(0, j);
  });
}
TEST_CASE("cross_entropy") {
  check(cross_entropy(z{}, target{}),
        [](auto& p, Index i, Index) { return row_log_sum_exp(p.in(z{}), i) - p.in(z{})(i, p.in(target{})(i, 0)); });
}
TEST_CASE("cross_entropy: its gradient is the probability minus one at the target") {
  TestProgram<roots<type_of<decltype(cross_entropy(z{}, target{}))>>> p(at<tokens>(3));
  p.forward();
  p.backward();
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 5; ++j) {
      double const q = std::exp(p.in(z{})(i, j) - row_log_sum_exp(p.in(z{}), i));
      CHECK(close(p.gradient(z{})(i, j), p.dy(i, 0) * (q - (p.in(target{})(i, 0) == j ? 1 : 0))));
    }
  }
}
TEST_CASE("label_smoothed_cross_entropy: the cross entropy with a smoothed target distribution") {
  check(label_smoothed_cross_entropy<1, 10>(z{}, target{}), [](auto& p, Index i, Index) {
    double sum = 0;
    for (Index j = 0; j < 5; ++j) {
      double const wanted = 0.1 / 5 + (p.in(target{})(i, 0) == j ? 0.9 : 0);
      sum -= wanted * (p.in(z{})(i, j) - row_log_sum_exp(p.in(z{}), i));
    }
    return sum;
  });
}
TEST_CASE("label_smoothed_cross_entropy: 0 for a target of -1, and cross_entropy without smoothing") {
  using Smoothed = type_of<decltype(label_smoothed_cross_entropy<1, 4>(z{}, target{}))>;
  TestProgram<roots<Smoothed>> p(at<tokens>(3));
  p.values(target{})[1] = -1;
  auto const y = p.forward();
  CHECK(y(0, 0) > 0);
  CHECK(y(1, 0) == 0);
  p.backward();
  for (Index j = 0; j < 5; ++j) {
    CHECK(p.gradient(z{})(0, j) != 0);
    CHECK(p.gradient(z{})(1, j) == 0);
  }
  check(label_smoothed_cross_entropy<0, 1>(z{}, target{}),
        [](auto& q, Index i, Index) { return row_log_sum_exp(q.in(z{}), i) - q.in(z{})(i, q.in(target{})(i, 0)); });
}
TEST_CASE("load_balance: is one when the probabilities are uniform, whatever was chosen") {
  TestProgram<roots<type_of<decltype(load_balance(z{}, chosen{}))>>> p(at<tokens>(6));
  p.values(z{}).assign(30, 0.2);
  CHECK(close(p.forward()(0, 0), 1));
}
TEST_CASE("load_balance: the formula of the paper, with the gradient by p") {
  gradcheck_options const positive{.low = 0.1, .high = 1};
  for (Index const rows : {1, 7}) {
    TestProgram<roots<type_of<decltype(load_balance(z{}, chosen{}))>>> p(positive, at<tokens>(rows));
    double const found = p.forward()(0, 0);
    double P[5] = {}, f[5] = {}, sum = 0, total = 0, expected = 0;
    for (Index i = 0; i < rows; ++i) {
      for (Index j = 0; j < 5; ++j) P[j] += p.in(z{})(i, j);
      for (Index k = 0; k < 2; ++k) f[p.in(chosen{})(i, k)] += 1;
    }
    for (int e = 0; e < 5; ++e) {
      sum += P[e];
      total += f[e];
    }
    for (int e = 0; e < 5; ++e) expected += 5 * P[e] / sum * f[e] / total;
    CHECK(close(found, expected));
    CHECK(gradcheck(load_balance(z{}, chosen{}), positive, at<tokens>(rows)).ok());
  }
}
TEST_CASE("z_loss: the mean of the squared log-sum-exp") {
  for (Index const rows : {1, 7}) {
    TestProgram<roots<type_of<decltype(z_loss(z{}))>>> p(at<tokens>(rows));
    double const found = p.forward()(0, 0);
    double expected = 0;
    for (Index i = 0; i < rows; ++i) expected += std::pow(row_log_sum_exp(p.in(z{}), i), 2) / static_cast<double>(rows);
    CHECK(close(found, expected));
    CHECK(gradcheck(z_loss(z{}), at<tokens>(rows)).ok());
  }
}

}  // namespace rows_test
