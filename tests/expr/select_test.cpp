// SPDX-License-Identifier: MIT
// Selection: top-k, gather, scatter, one-hot, embedding lookup; products with the weights of chosen experts, and their
// combination.

#include "headmix/expr/select.hpp"

#include <algorithm>
#include <limits>

#include "../test_program.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/softmax.hpp"

namespace select_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct E : size<5> {};
struct K : size<2> {};
struct D : size<3> {};
struct H : size<4> {};
struct scores : input<tokens, E> {};
struct picked : input<tokens, K> {};
struct picks : selection<tokens, K, E> {};
struct table : param<E, D> {};
struct word : selection<tokens, size<1>, E> {};
struct x : input<tokens, D> {};
struct slots : input<times<K, tokens>, H> {};
struct W_in : param<E, D, H> {};
struct W_out : param<E, H, D> {};
struct gate : input<tokens, K> {};

double const not_a_number = std::numeric_limits<double>::quiet_NaN();
double const infinity = std::numeric_limits<double>::infinity();

/// The columns that arg_top_k<Chosen> finds in a row of five.
template <Index Chosen>
std::vector<Int> best(std::vector<double> const& row) {
  TestProgram<roots<type_of<decltype(arg_top_k<size<Chosen>>(scores{}))>>> p(at<tokens>(1));
  std::copy(row.begin(), row.end(), p.values(scores{}).begin());
  p.program.bind_workspace((p.workspace = AlignedBuffer(p.program.workspace_bytes())).bytes());
  auto const y = p.program.forward();
  return {y.data, y.data + y.size()};
}
using list = std::vector<Int>;

}  // namespace

TEST_CASE("top_k: the largest first") { CHECK(best<3>({0.1, 0.5, -2, 0.9, 0.3}) == list{3, 1, 4}); }
TEST_CASE("top_k: equal values in order of their columns") {
  CHECK(best<3>({0, 0, 0, 0, 0}) == list{0, 1, 2});
  CHECK(best<3>({1, 3, 2, 3, 2}) == list{1, 3, 2});
  CHECK(best<2>({-0.0, 0.0, -1, 0.0, -1}) == list{0, 1});
}
TEST_CASE("top_k: NaN comes last, after minus infinity") {
  CHECK(best<5>({not_a_number, 1, -infinity, not_a_number, infinity}) == list{4, 1, 2, 0, 3});
  CHECK(best<2>({not_a_number, not_a_number, not_a_number, not_a_number, not_a_number}) == list{0, 1});
}
TEST_CASE("top_k: of all columns is the sorted order, of one the maximum") {
  CHECK(best<5>({5, 4, 1, 2, 3}) == list{0, 1, 4, 3, 2});
  CHECK(best<1>({5, 4, 1, 7, 3}) == list{3});
}
TEST_CASE("top_k: knows how many columns it chose from, and has no gradient") {
  using chosen = decltype(arg_top_k<K>(scores{}));
  static_assert(std::is_same_v<domain<chosen>, E> && std::is_same_v<cols<chosen>, K> && !chosen::grad);
  check_gradient(gather_cols(softmax(scores{}), arg_top_k<K>(scores{})));
  check_gradient(gather_cols(scores{}, arg_top_k<E>(scores{})));
}
TEST_CASE("take: the values at the chosen columns") {
  check(gather_cols(scores{}, picks{}),
        [](auto& p, Index i, Index j) { return p.in(scores{})(i, p.in(picks{})(i, j)); });
}
TEST_CASE("put: values of one column are added, the others are zero") {
  check(scatter_cols(picked{}, picks{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index k = 0; k < 2; ++k) sum += p.in(picks{})(i, k) == j ? p.in(picked{})(i, k) : 0;
    return sum;
  });
}
TEST_CASE("one_hot: counts how often each column was chosen") {
  check(one_hot(picks{}) * scores{}, [](auto& p, Index i, Index j) {
    double n = 0;
    for (Index k = 0; k < 2; ++k) n += p.in(picks{})(i, k) == j ? 1 : 0;
    return n * p.in(scores{})(i, j);
  });
}
TEST_CASE("gather_rows: an embedding lookup adds the gradients of equal words") {
  check(gather_rows(table{}, word{}), [](auto& p, Index i, Index j) { return p.in(table{})(p.in(word{})(i, 0), j); });
}
TEST_CASE("gather_rows: of a computed table") { check_gradient(gather_rows(tanh(table{}), word{}) * x{}); }
TEST_CASE("choice of -1: take gives zero, put and one_hot skip it, and no gradient flows") {
  using Y = type_of<decltype(gather_cols(scores{}, picks{}))>;
  TestProgram<roots<Y, type_of<decltype(sum(scatter_cols(picked{}, picks{})))>, type_of<decltype(one_hot(picks{}))>>> p(
      at<tokens>(2));
  p.values(picks{}) = {-1, 3, -1, -1};
  auto const y = p.forward();
  CHECK(y(0, 0) == 0);
  CHECK(y(0, 1) == p.in(scores{})(0, 3));
  CHECK(y(1, 0) == 0);
  CHECK(p.program.get(sum(scatter_cols(picked{}, picks{})))(0, 0) == p.in(picked{})(0, 1));
  auto const hot = p.program.get(one_hot(picks{}));
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 5; ++j) CHECK(hot(i, j) == (i == 0 && j == 3 ? 1 : 0));
  }
  p.backward({2.0});
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 5; ++j) CHECK(p.gradient(scores{})(i, j) == (i == 0 && j == 3 ? p.dy(0, 1) : 0));
  }
  CHECK(p.values(picks{})[1] == 3);
  CHECK(p.gradients(picked{}) == std::vector<double>{0, 2, 0, 0});
}
TEST_CASE("choice of -1: gather_rows gives a row of zeros and no gradient") {
  TestProgram<roots<type_of<decltype(gather_rows(table{}, word{}))>>> p(at<tokens>(2));
  p.values(word{}) = {-1, 4};
  auto const y = p.forward();
  p.backward();
  for (Index j = 0; j < 3; ++j) {
    CHECK(y(0, j) == 0);
    CHECK(y(1, j) == p.in(table{})(4, j));
    CHECK(p.gradient(table{})(4, j) == p.dy(1, j));
    CHECK(p.gradient(table{})(0, j) == 0);
  }
}
TEST_CASE("sort_by_expert: slots grouped by expert, ascending, those without expert left out") {
  TestProgram<
      roots<type_of<decltype(sort_by_expert(picks{}))>, type_of<decltype(get_output<1>(sort_by_expert(picks{})))>>,
      inference>
      p(at<tokens>(3));
  p.values(picks{}) = {4, 1, -1, 4, 1, 0};
  p.program.bind_workspace((p.workspace = AlignedBuffer(p.program.workspace_bytes())).bytes());
  auto const slot = p.program.forward();
  auto const begin = p.program.get(get_output<1>(sort_by_expert(picks{})));
  CHECK(std::vector<Int>(begin.data, begin.data + 6) == list{0, 1, 3, 3, 3, 5});
  CHECK(std::vector<Int>(slot.data, slot.data + 5) == list{5, 1, 4, 0, 3});
}
TEST_CASE("expert_linear: a token times the weights of each of its experts") {
  check(expert_linear(x{}, W_in{}, picks{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index c = 0; c < 3; ++c) sum += p.in(x{})(i / 2, c) * p.in(W_in{})[p.in(picks{})(i / 2, i % 2)](c, j);
    return sum;
  });
}
TEST_CASE("expert_linear: a slot times the weights of its expert") {
  check(expert_linear(slots{}, W_out{}, picks{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index c = 0; c < 4; ++c) sum += p.in(slots{})(i, c) * p.in(W_out{})[p.in(picks{})(i / 2, i % 2)](c, j);
    return sum;
  });
}
TEST_CASE("expert_linear: a choice of -1 gives zero, an expert without rows a gradient of zero") {
  TestProgram<roots<type_of<decltype(expert_linear(x{}, W_in{}, picks{}))>>> p(at<tokens>(3));
  p.values(picks{}) = {-1, 2, 2, 0, -1, -1};
  auto const y = p.forward();
  p.backward();
  double d_W[5][3][4] = {}, d_x[3][3] = {};
  for (Index s = 0; s < 6; ++s) {
    Int const e = p.in(picks{})(s / 2, s % 2);
    for (Index h = 0; h < 4; ++h) {
      double expected = 0;
      for (Index c = 0; c < 3 && e >= 0; ++c) {
        expected += p.in(x{})(s / 2, c) * p.in(W_in{})[e](c, h);
        d_W[e][c][h] += p.in(x{})(s / 2, c) * p.dy(s, h);
        d_x[s / 2][c] += p.in(W_in{})[e](c, h) * p.dy(s, h);
      }
      CHECK(close(y(s, h), expected));
    }
  }
  for (Index e = 0; e < 5; ++e) {
    for (Index c = 0; c < 3; ++c) {
      for (Index h = 0; h < 4; ++h) CHECK(close(p.gradient(W_in{})[e](c, h), d_W[e][c][h]));
    }
  }
  for (Index i = 0; i < 3; ++i) {
    for (Index c = 0; c < 3; ++c) CHECK(close(p.gradient(x{})(i, c), d_x[i][c]));
  }
}
TEST_CASE("expert_linear: one expert per row") {
  check(expert_linear(x{}, W_in{}, word{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index c = 0; c < 3; ++c) sum += p.in(x{})(i, c) * p.in(W_in{})[p.in(word{})(i, 0)](c, j);
    return sum;
  });
}
TEST_CASE("expert_linear: two products over one selection share the order of the slots") {
  using Y = type_of<decltype(expert_linear(expert_linear(x{}, W_in{}, picks{}), W_out{}, picks{}))>;
  CHECK(Program<roots<Y>, Reference<double>, inference>::forward_steps::size == 3);
  check_gradient(Y{});
}
TEST_CASE("mix: the rows of a token, weighed and added") {
  check(combine(gate{}, slots{}), [](auto& p, Index i, Index j) {
    return p.in(gate{})(i, 0) * p.in(slots{})(2 * i, j) + p.in(gate{})(i, 1) * p.in(slots{})(2 * i + 1, j);
  });
}
TEST_CASE("mix: of a computed gate") {
  check_gradient(combine(gather_cols(softmax(scores{}), picks{}), expert_linear(x{}, W_in{}, picks{})));
}

}  // namespace select_test
