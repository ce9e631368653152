// SPDX-License-Identifier: MIT
// Choices dropped by a limited capacity, against a count that is independent of the sort.

#include "headmix/expr/capacity.hpp"

#include <array>

#include "../test_program.hpp"

namespace capacity_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct E : size<3> {};
struct K : size<2> {};
struct picks : selection<tokens, K, E> {};
struct C : size<dynamic> {};
struct x : input<tokens, size<4>> {};
struct W : param<E, size<4>, size<4>> {};

/// All first choices in the order of rows, then all second ones; every third choice is -1.
template <class Limit, Extent... X>
void check_limit(Index rows, Index most, size_value<X>... sizes) {
  constexpr auto y = within_capacity<Limit, std::conditional_t<sizeof...(X) == 0, size<0>, C>>(picks{});
  static_assert(std::is_same_v<domain<type_of<decltype(y)>>, E> && !y.grad);
  TestProgram<roots<type_of<decltype(y)>>, inference> p(at<tokens>(rows), sizes...);
  auto& chosen = p.values(picks{});
  for (std::size_t i = 0; i < chosen.size(); i += 3) chosen[i] = -1;
  p.program.bind_workspace((p.workspace = AlignedBuffer(p.program.workspace_bytes())).bytes());
  auto const kept = p.program.forward();
  REQUIRE(kept.rows == rows);
  std::array<Index, 3> taken{};
  for (Index j = 0; j < 2; ++j) {
    for (Index i = 0; i < rows; ++i) {
      CAPTURE(i);
      CAPTURE(j);
      Int const e = chosen[static_cast<std::size_t>(i * 2 + j)];
      bool const fits = e >= 0 && taken[static_cast<std::size_t>(e)]++ < most;
      CHECK(kept(i, j) == (fits ? e : -1));
    }
  }
}

}  // namespace

TEST_CASE("capacity: later choices find their expert full, first choices come before all second ones") {
  for (Index const rows : {0, 1, 7, 20}) {
    CAPTURE(rows);
    Index const even = (rows + 2) / 3;
    check_limit<capacity<1>>(rows, 2 * even);
    check_limit<capacity<1, 2>>(rows, 2 * (even / 2));
    check_limit<capacity<5, 4>>(rows, 2 * (5 * even / 4));
    check_limit<capacity<0>>(rows, 0);
    for (Index const most : {0, 1, 4, 100}) check_limit<capacity<dynamic>>(rows, most, at<C>(most));
  }
}
TEST_CASE("capacity: rows for a factor that is known when the program runs") {
  CHECK(capacity_rows(1, 12, 4, 2) == 6);
  CHECK(capacity_rows(1, 13, 4, 2) == 8);
  CHECK(capacity_rows(1.25, 13, 4, 2) == 10);
  CHECK(capacity_rows(0.5, 13, 4, 3) == 6);
  CHECK(capacity_rows(1, 0, 4, 2) == 0);
  CHECK(capacity_rows(0, 13, 4, 2) == 0);
}
TEST_CASE("capacity: what is left out has no result and no gradient") {
  // The first choice of every row is expert 1, of capacity two.
  constexpr auto y = expert_linear(x{}, W{}, within_capacity<capacity<dynamic>, C>(picks{}));
  TestProgram<roots<type_of<decltype(y)>>> p(at<tokens>(5), at<C>(2));
  for (std::size_t i = 0; i < 5; ++i) p.values(picks{})[2 * i] = 1, p.values(picks{})[2 * i + 1] = -1;
  auto const result = p.forward();
  for (Index s = 0; s < 10; ++s) {
    for (Index j = 0; j < 4; ++j) CHECK((result(s, j) != 0) == (s == 0 || s == 2));
  }
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
  p.zero_gradients();
  p.forward();
  p.backward();
  for (Index i = 0; i < 5; ++i) CHECK((p.gradient(x{})(i, 0) != 0) == (i < 2));
}

}  // namespace capacity_test
