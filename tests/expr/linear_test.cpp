// SPDX-License-Identifier: MIT
// Matrix products, sums, means and views.

#include "headmix/expr/linear.hpp"

#include "../test_program.hpp"

namespace linear_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct M : size<3> {};
struct N : size<5> {};
struct x : input<tokens, M> {};
struct z : input<tokens, N> {};
struct w : param<M, N> {};
struct w_t : param<N, M> {};
struct x_t : input<M, tokens> {};
struct wide_row : input<tokens, size<6>> {};
struct tall : input<times<size<3>, tokens>, N> {};

double dot(Index n, auto f) {
  double sum = 0;
  for (Index k = 0; k < n; ++k) sum += f(k);
  return sum;
}

}  // namespace

TEST_CASE("matmul: plain") {
  check(x{} % w{},
        [](auto& p, Index i, Index j) { return dot(3, [&](Index k) { return p.in(x{})(i, k) * p.in(w{})(k, j); }); });
}
TEST_CASE("matmul: second operand transposed") {
  check(x{} % t(w_t{}),
        [](auto& p, Index i, Index j) { return dot(3, [&](Index k) { return p.in(x{})(i, k) * p.in(w_t{})(j, k); }); });
}
TEST_CASE("matmul: first operand transposed") {
  check(t(x{}) % z{}, [](auto& p, Index i, Index j) {
    return dot(p.in(x{}).rows, [&](Index k) { return p.in(x{})(k, i) * p.in(z{})(k, j); });
  });
}
TEST_CASE("matmul: both operands transposed") {
  check(t(x_t{}) % t(w_t{}), [](auto& p, Index i, Index j) {
    return dot(3, [&](Index k) { return p.in(x_t{})(k, i) * p.in(w_t{})(j, k); });
  });
}
TEST_CASE("matmul: wide") {
  static_assert(decltype(upcast(x{} % w{}))::kind_of == kind::accumulator);
  check(upcast(x{} % w{}),
        [](auto& p, Index i, Index j) { return dot(3, [&](Index k) { return p.in(x{})(i, k) * p.in(w{})(k, j); }); });
}
TEST_CASE("matmul: a value times its own transpose") {
  check(x{} % t(x{}),
        [](auto& p, Index i, Index j) { return dot(3, [&](Index k) { return p.in(x{})(i, k) * p.in(x{})(j, k); }); });
}
TEST_CASE("matmul: the transpose of a product is the product of the transposes, exchanged") {
  static_assert(std::is_same_v<decltype(t(x{} % w{})), decltype(t(w{}) % t(x{}))>);
  check(t(x{} % w{}) * t(z{}), [](auto& p, Index i, Index j) {
    return dot(3, [&](Index k) { return p.in(x{})(j, k) * p.in(w{})(k, i); }) * p.in(z{})(j, i);
  });
}
TEST_CASE("matmul: pointwise operands are stored first") {
  check(exp(x{}) % tanh(w{}), [](auto& p, Index i, Index j) {
    return dot(3, [&](Index k) { return std::exp(p.in(x{})(i, k)) * std::tanh(p.in(w{})(k, j)); });
  });
}
TEST_CASE("matmul: the same weight three times in a row") {
  struct s : param<M, M> {};
  check_gradient(x{} % s{} % s{} % t(s{}));
}
TEST_CASE("transpose: alone and twice") {
  static_assert(std::is_same_v<decltype(t(t(x{}))), x>);
  check(t(x{}), [](auto& p, Index i, Index j) { return p.in(x{})(j, i); });
}
TEST_CASE("row_sum: of a fused product") {
  check(row_sum(z{} * z{}),
        [](auto& p, Index i, Index) { return dot(5, [&](Index k) { return p.in(z{})(i, k) * p.in(z{})(i, k); }); });
}
TEST_CASE("col_sum: of a fused product") {
  check(col_sum(z{} * exp(z{})), [](auto& p, Index, Index j) {
    return dot(p.in(z{}).rows, [&](Index k) { return p.in(z{})(k, j) * std::exp(p.in(z{})(k, j)); });
  });
}
TEST_CASE("sum: over everything") {
  check(sum(z{} * z{}), [](auto& p, Index, Index) {
    return dot(p.in(z{}).size(), [&](Index k) {
      return p.values(z{})[static_cast<std::size_t>(k)] * p.values(z{})[static_cast<std::size_t>(k)];
    });
  });
}
TEST_CASE("row_sum and col_sum: of a stack of matrices") {
  struct W : param<size<2>, M, N> {};
  TestProgram<roots<type_of<decltype(row_sum(W{}))>, type_of<decltype(sum(W{}))>>> p;
  auto const y = p.forward();
  CHECK(y.count == 2);
  double all = 0;
  for (Index e = 0; e < 2; ++e) {
    for (Index i = 0; i < 3; ++i) {
      double const expected = dot(5, [&](Index k) { return p.in(W{})[e](i, k); });
      CHECK(close(y[e](i, 0), expected));
      all += expected;
    }
  }
  CHECK(close(p.program.get(sum(W{}))(0, 0), all));
  CHECK(gradcheck(row_sum(W{} * W{})).ok());
  CHECK(gradcheck(sum(W{} * W{})).ok());
}
TEST_CASE("mean: of a stack of matrices") {
  struct W : param<size<2>, M, N> {};
  TestProgram<roots<type_of<decltype(mean(W{}))>>> p;
  double const found = p.forward()(0, 0);
  double all = 0;
  for (double const v : p.values(W{})) all += v;
  CHECK(close(found, all / 30));
}
TEST_CASE("group_sum: over consecutive rows") {
  check(group_sum<size<3>>(tall{} * tall{}), [](auto& p, Index i, Index j) {
    return dot(3, [&](Index k) { return p.in(tall{})(3 * i + k, j) * p.in(tall{})(3 * i + k, j); });
  });
}
TEST_CASE("repeat_rows: every row three times in a row") {
  check(repeat_rows<size<3>>(z{}) * tall{},
        [](auto& p, Index i, Index j) { return p.in(z{})(i / 3, j) * p.in(tall{})(i, j); });
}
TEST_CASE("repeat_rows: of a computed value") { check_gradient(repeat_rows<size<3>>(exp(z{}) + x{} % w{}) * tall{}); }
TEST_CASE("split_rows: the parts of a row become rows") {
  check(split_rows<size<2>>(wide_row{}),
        [](auto& p, Index i, Index j) { return p.in(wide_row{})(i / 2, i % 2 * 3 + j); });
}
TEST_CASE("merge_rows: is the inverse of split_rows") {
  check(merge_rows<size<3>>(tall{}), [](auto& p, Index i, Index j) { return p.in(tall{})(3 * i + j / 5, j % 5); });
  TestProgram<roots<type_of<decltype(merge_rows<size<2>>(split_rows<size<2>>(wide_row{})))>>> p(at<tokens>(3));
  auto const y = p.forward();
  CHECK(y.cols == 6);
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 6; ++j) CHECK(y(i, j) == p.in(wide_row{})(i, j));
  }
}
TEST_CASE("split_rows: of a computed value, into a product") {
  check(split_rows<size<2>>(exp(wide_row{})) % w{}, [](auto& p, Index i, Index j) {
    return dot(3, [&](Index k) { return std::exp(p.in(wide_row{})(i / 2, i % 2 * 3 + k)) * p.in(w{})(k, j); });
  });
}
TEST_CASE("split_rows: by one is the value itself") {
  static_assert(std::is_same_v<decltype(split_rows<size<1>>(x{})), x>);
  static_assert(std::is_same_v<decltype(merge_rows<size<1>>(x{})), x>);
  static_assert(std::is_same_v<decltype(repeat_rows<size<1>>(x{})), x>);
  static_assert(std::is_same_v<decltype(group_sum<size<1>>(x{})), x>);
  check_gradient(split_rows<size<1>>(x{}) * x{});
}
TEST_CASE("split_rows: of a transposed value") {
  struct square_input : input<size<4>, size<4>> {};
  TestProgram<roots<type_of<decltype(split_rows<size<2>>(t(square_input{})))>>> p;
  auto const y = p.forward();
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 2; ++j) CHECK(y(i, j) == p.in(square_input{})(i % 2 * 2 + j, i / 2));
  }
}
TEST_CASE("transpose: of a split value, element by element") {
  struct m : input<size<3>, times<size<2>, tokens>> {};
  check(t(split_rows<size<2>>(wide_row{})) * m{},
        [](auto& p, Index i, Index j) { return p.in(wide_row{})(j / 2, j % 2 * 3 + i) * p.in(m{})(i, j); });
}
TEST_CASE("means: of rows, columns and everything") {
  check(row_mean(z{} * z{}),
        [](auto& p, Index i, Index) { return dot(5, [&](Index k) { return p.in(z{})(i, k) * p.in(z{})(i, k); }) / 5; });
  for (Index const rows : {1, 7}) {
    CHECK(gradcheck(col_mean(z{} * z{}), at<tokens>(rows)).ok());
    CHECK(gradcheck(mean(z{} * z{}), at<tokens>(rows)).ok());
    TestProgram<roots<type_of<decltype(mean(z{}))>, type_of<decltype(col_mean(z{}))>>> p(at<tokens>(rows));
    double const found = p.forward()(0, 0);
    double const first = dot(rows, [&](Index k) { return p.in(z{})(k, 0); }) / static_cast<double>(rows);
    double all = 0;
    for (double const v : p.values(z{})) all += v;
    CHECK(close(found, all / static_cast<double>(5 * rows)));
    CHECK(close(p.program.get(col_mean(z{}))(0, 0), first));
  }
}

}  // namespace linear_test
