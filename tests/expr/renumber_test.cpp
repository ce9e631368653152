// SPDX-License-Identifier: MIT
// Renumbered selections: concatenated columns, offsets, rows of a longer table.

#include "../test_program.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/router/router.hpp"

namespace renumber_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct E : size<5> {};
struct K : size<2> {};
struct picks : selection<tokens, K, E> {};
struct more : selection<tokens, size<3>, E> {};
struct first : size<3> {};
struct all : size<8> {};
struct any_first : size<dynamic> {};
struct a : input<tokens, K> {};
struct b : input<tokens, size<3>> {};
struct scores : input<tokens, all> {};
struct table : input<times<E, tokens>, size<1>> {};

/// Checks a selection with 0, 1 and 7 rows of picks, some of them -1.
template <Selection Y, class F, Extent... X>
void check_choices(Y, F formula, size_value<X>... sizes) {
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<Y>, inference> p(at<tokens>(rows), sizes...);
    if constexpr (detail::contains<leaves_of<roots<Y>>, picks>) {
      for (std::size_t i = 0; i < p.values(picks{}).size(); i += 3) p.values(picks{})[i] = -1;
    }
    p.program.bind_workspace((p.workspace = AlignedBuffer(p.program.workspace_bytes())).bytes());
    auto const y = p.program.forward();
    REQUIRE(y.rows == rows);
    for (Index i = 0; i < rows; ++i) {
      CAPTURE(i);
      for (Index j = 0; j < y.cols; ++j) CHECK(y(i, j) == formula(p, i, j));
    }
  }
}

}  // namespace

TEST_CASE("columns: the same numbers in every row, as many rows as the operand has") {
  constexpr auto y = iota_cols<first, K, all>(scores{});
  static_assert(std::is_same_v<domain<type_of<decltype(y)>>, all> && !y.grad);
  check_choices(y, [](auto&, Index, Index j) { return 3 + j; });
  check_choices(
      iota_cols<any_first, K, all>(picks{}), [](auto&, Index, Index j) { return 5 + j; }, at<any_first>(5));
}
TEST_CASE("offset_cols: -1 stays -1") {
  constexpr auto y = offset_cols<first, all>(picks{});
  static_assert(std::is_same_v<domain<type_of<decltype(y)>>, all>);
  check_choices(y, [](auto& p, Index i, Index j) {
    Int const chosen = p.in(picks{})(i, j);
    return chosen == -1 ? -1 : chosen + 3;
  });
}
TEST_CASE("flat_index: the column of a row as a row of all columns") {
  check_choices(flat_index(picks{}), [](auto& p, Index i, Index j) {
    Index const chosen = p.in(picks{})(i, j);
    return chosen == -1 ? -1 : i * 5 + chosen;
  });
  // gather_rows of split rows equals gather_cols of whole rows.
  check_gradient(gather_rows(table{}, split_rows<K>(flat_index(picks{}))) * split_rows<K>(a{}));
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<type_of<decltype(gather_rows(table{}, split_rows<K>(flat_index(picks{}))))>>> p(at<tokens>(rows));
    auto const y = p.forward();
    for (Index i = 0; i < 2 * rows; ++i) {
      CHECK(y(i, 0) == p.values(table{})[static_cast<std::size_t>(i / 2 * 5 + p.in(picks{})(i / 2, i % 2))]);
    }
  }
}
TEST_CASE("join: choices side by side") {
  check_choices(concat_cols(picks{}, more{}),
                [](auto& p, Index i, Index j) { return j < 2 ? p.in(picks{})(i, j) : p.in(more{})(i, j - 2); });
}
TEST_CASE("shared_and: the shared columns, then the chosen ones behind them") {
  using Y = type_of<decltype(shared_and<first>(picks{}))>;
  static_assert(domain<Y>::value == 8 && cols<Y>::value == 5);
  check_choices(Y{}, [](auto& p, Index i, Index j) {
    Index const chosen = j < 3 ? j : p.in(picks{})(i, j - 3);
    return j < 3 ? j : (chosen == -1 ? -1 : chosen + 3);
  });
  static_assert(std::is_same_v<type_of<decltype(shared_and<size<0>>(picks{}))>, picks>);
  check_choices(
      shared_and<any_first>(picks{}),
      [](auto& p, Index i, Index j) {
        Index const chosen = j < 4 ? j : p.in(picks{})(i, j - 4);
        return j < 4 ? j : (chosen == -1 ? -1 : chosen + 4);
      },
      at<any_first>(4));
}
TEST_CASE("beside: the columns of the one, then those of the other, and their gradients") {
  check(concat_cols(a{}, b{}), [](auto& p, Index i, Index j) { return j < 2 ? p.in(a{})(i, j) : p.in(b{})(i, j - 2); });
  check_gradient(concat_cols(tanh(a{}), a{}) * concat_cols(a{}, softmax(a{})));
  check_gradient(concat_cols(ones_of<tokens, K>(), b{}));
}
TEST_CASE("ones_and: a one for each shared column") {
  check(ones_and<first>(a{}), [](auto& p, Index i, Index j) { return j < 3 ? 1 : p.in(a{})(i, j - 3); });
  static_assert(std::is_same_v<type_of<decltype(ones_and<size<0>>(a{}))>, a>);
}

}  // namespace renumber_test
