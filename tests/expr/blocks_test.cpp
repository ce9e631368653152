// SPDX-License-Identifier: MIT
// Sums over the slots of a row, and matrices as stacks of their blocks.

#include "headmix/expr/blocks.hpp"

#include "../test_program.hpp"
#include "headmix/expr/softmax.hpp"

namespace blocks_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct E : size<5> {};
struct K : size<2> {};
struct D : size<3> {};
struct H : size<4> {};
struct Parts : size<dynamic> {};
struct picks : selection<tokens, K, E> {};
struct further : selection<tokens, size<3>, E> {};
struct any_picks : selection<tokens, K, Parts> {};
struct x : input<tokens, D> {};
struct slots : input<times<K, tokens>, H> {};
struct gate : input<tokens, K> {};
struct W : param<E, H, D> {};
struct W_q : param<D, times<E, H>> {};
struct W_o : param<times<E, H>, D> {};
struct any_W : param<D, times<Parts, H>> {};

/// Two programs over equal leaves: values and gradients agree.
template <Expr Y, Expr Z>
void check_twins(Y, Z, std::vector<Int> const& chosen) {
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<Y>> p(at<tokens>(rows));
    TestProgram<roots<Z>> q(at<tokens>(rows));
    std::copy_n(chosen.begin(), static_cast<std::size_t>(2 * rows), p.values(picks{}).begin());
    for_each(leaves_of<roots<Y>>{}, [&]<class L>() { q.values(L{}) = p.values(L{}); });
    auto const y = p.forward(), z = q.forward();
    for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
    p.backward();
    q.backward();
    for_each(leaves_of<roots<Y>>{}, [&]<class L>() {
      for (std::size_t i = 0; i < p.gradients(L{}).size(); ++i) CHECK(close(p.gradients(L{})[i], q.gradients(L{})[i]));
    });
  }
}
/// Expert 2 is never chosen.
std::vector<Int> const some{3, 1, -1, -1, 0, 3, 3, 0, 4, -1, -1, 3, 1, 3};

template <class Whole, class One>
void check_twins_of_one() {
  TestProgram<roots<type_of<decltype(expert_linear(x{}, column_blocks<size<1>>(Whole{}), One{}))>>> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(x{} % Whole{})>>> q(at<tokens>(7));
  q.values(x{}) = p.values(x{});
  q.values(Whole{}) = p.values(Whole{});
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  p.backward();
  q.backward();
  for (std::size_t i = 0; i < 12; ++i) CHECK(close(p.gradients(Whole{})[i], q.gradients(Whole{})[i]));
}

double block_product(view<double> a, Index i, view<double> w, Index row, Index col) {
  double sum = 0;
  for (Index c = 0; c < a.cols; ++c) sum += a(i, c) * w(row + c, col);
  return sum;
}

}  // namespace

TEST_CASE("expert_linear_combine: the products of a row's slots, added") {
  check(expert_linear_combine(slots{}, W{}, picks{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index s = 0; s < 2; ++s) sum += block_product(p.in(slots{}), 2 * i + s, p.in(W{})[p.in(picks{})(i, s)], 0, j);
    return sum;
  });
}
TEST_CASE("expert_linear_combine: is the mix of expert_linear, also of slots without expert") {
  check_twins(round_to_storage(expert_linear_combine(split_rows<K>(gate{}) * slots{}, W{}, picks{})),
              combine(gate{}, expert_linear(slots{}, W{}, picks{})), some);
}
TEST_CASE("expert_linear_combine: gradients of slots without expert, and of an expert without slots, are zero") {
  TestProgram<roots<type_of<decltype(expert_linear_combine(slots{}, W{}, picks{}))>>> p(at<tokens>(7));
  p.values(picks{}) = some;
  auto const y = p.forward();
  p.backward();
  for (Index j = 0; j < 3; ++j) CHECK((y(1, j) == 0 && y(0, j) != 0));
  for (Index s = 0; s < 14; ++s) CHECK((p.gradient(slots{})(s, 0) != 0) == (some[static_cast<std::size_t>(s)] >= 0));
  for (Index e = 0; e < 5; ++e) CHECK((p.gradient(W{})[e](0, 0) != 0) == (e != 2));
}
TEST_CASE("expert_linear_combine: of one slot per row, and two sums over the same slots") {
  struct one : selection<tokens, size<1>, E> {};
  struct rows_in : input<tokens, H> {};
  check_gradient(expert_linear_combine(rows_in{}, W{}, one{}));
  check_gradient(expert_linear_combine(slots{}, W{}, picks{}) + expert_linear_combine(tanh(slots{}), W{}, picks{}));
}
TEST_CASE("column_blocks: products with the columns of the chosen experts") {
  check(expert_linear(x{}, column_blocks<E>(W_q{}), picks{}), [](auto& p, Index i, Index j) {
    return block_product(p.in(x{}), i / 2, p.in(W_q{}), 0, p.in(picks{})(i / 2, i % 2) * 4 + j);
  });
}
TEST_CASE("row_blocks: products with the rows of the chosen experts") {
  check(expert_linear_combine(slots{}, row_blocks<E>(W_o{}), picks{}), [](auto& p, Index i, Index j) {
    double sum = 0;
    for (Index s = 0; s < 2; ++s)
      sum += block_product(p.in(slots{}), 2 * i + s, p.in(W_o{}), p.in(picks{})(i, s) * 4, j);
    return sum;
  });
}
TEST_CASE("blocks: a choice of nothing, and a block that nobody chose") {
  TestProgram<roots<type_of<decltype(expert_linear(x{}, column_blocks<E>(W_q{}), picks{}))>>> p(at<tokens>(7));
  p.values(picks{}) = some;
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
  p.backward();
  for (Index i = 0; i < 3; ++i) {
    for (Index j = 0; j < 20; ++j) CHECK((p.gradient(W_q{})(i, j) != 0) == (j / 4 != 2));
  }
}
TEST_CASE("blocks: gradients of a stack that two products read, and of the matrix besides") {
  constexpr auto blocks = column_blocks<E>(W_q{});
  constexpr auto two = group_sum<K>(expert_linear(x{}, blocks, picks{})) +
                       group_sum<size<3>>(expert_linear(tanh(x{}), blocks, further{}));
  check_gradient(two);
  check_gradient(two * row_sum(x{} % W_q{}));
}
TEST_CASE("blocks: functions of the elements of a stack") {
  check(expert_linear(x{}, column_blocks<E>(W_q{}) * number<3>{}, picks{}), [](auto& p, Index i, Index j) {
    return 3 * block_product(p.in(x{}), i / 2, p.in(W_q{}), 0, p.in(picks{})(i / 2, i % 2) * 4 + j);
  });
  check_gradient(expert_linear_combine(slots{}, square(row_blocks<E>(W_o{})), picks{}));
}
TEST_CASE("blocks: of a computed matrix, and of a number of parts that is known when the program runs") {
  check_gradient(expert_linear(x{}, column_blocks<E>(tanh(W_q{})), picks{}));
  check_gradient(expert_linear(x{}, column_blocks<Parts>(any_W{}), any_picks{}), {}, at<Parts>(5));
  check_gradient(expert_linear(x{}, column_blocks<Parts>(any_W{}), any_picks{}), {}, at<Parts>(1));
}
TEST_CASE("blocks: one block is the matrix") {
  struct whole : param<D, H> {};
  struct one : selection<tokens, size<1>, size<1>> {};
  check_twins_of_one<whole, one>();
}

}  // namespace blocks_test
