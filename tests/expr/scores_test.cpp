// SPDX-License-Identifier: MIT
// Attention with scores other than q k^T / sqrt(d_h): without the square root, and with a bias for every query, key and
// head.

#include <array>

#include "../test_program.hpp"
#include "attend.hpp"
#include "headmix/expr/attention.hpp"

namespace scores_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct heads : size<4> {};
struct longest : size<7> {};
struct picks : selection<tokens, size<2>, heads> {};
struct q : input<tokens, size<12>> {};
struct q_of_slots : input<times<size<2>, tokens>, size<3>> {};
struct k : input<tokens, size<6>> {};
struct v : input<tokens, size<6>> {};
struct bias : param<times<longest, longest>, heads> {};

std::vector<Int> const some{3, 1, -1, -1, 0, 3, 3, 0, 3, -1, -1, 3, 1, 3};

template <class Mask, Expr Y>
void check_scores(Y, bool scaled, bool biased) {
  static std::array<Int, 5> const offsets{0, 3, 3, 4, 7};
  constexpr bool chooses = detail::contains<leaves_of<roots<Y>>, picks>;
  for (Index const n : {0, 1, 7, -7}) {
    gradcheck_options o;
    segments s = uniform(1, n);
    if (0 > n) o.token_sequences = s = ragged(offsets.data(), 4);
    TestProgram<roots<Y>> p(o, at<tokens>(s.rows));
    attended a;
    if constexpr (chooses) {
      std::copy_n(some.begin(), static_cast<std::size_t>(2 * s.rows), p.values(picks{}).begin());
      a = {p.in(q_of_slots{}), p.in(k{}), p.in(v{}), s, s, 2, 2, p.in(picks{}), 4};
    } else {
      a = {p.in(q{}), p.in(k{}), p.in(v{}), s, s, 1, 2};
    }
    a.scaled = scaled;
    if constexpr (detail::contains<leaves_of<roots<Y>>, bias>) {
      a.bias = p.in(bias{});
      a.bias_keys = 7;
    }
    CHECK((a.bias.data != nullptr) == biased);
    auto const found = p.forward();
    auto const expected = attend<Mask>(a);
    CAPTURE(n);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(close(found.data[i], expected[i]));
    }
    auto const r = p.check_gradients();
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}

/// A custom variant.
struct doubled {
  using mask = causal;
  static double scale(Index head_dim) { return 2 / std::sqrt(static_cast<double>(head_dim)); }
};

}  // namespace

TEST_CASE("scores: plain products") {
  check_scores<full>(attention<unscaled<full>, size<2>>(q{}, k{}, v{}), false, false);
}
TEST_CASE("scores: a bias for every query, key and head") {
  check_scores<causal>(attention<causal, size<2>>(q{}, k{}, v{}, bias_of_scores<longest>(bias{})), true, true);
}
TEST_CASE("scores: a bias of plain products of chosen heads") {
  check_scores<causal>(attention<unscaled<causal>, size<2>>(q_of_slots{}, k{}, v{}, rows_of_heads(picks{}),
                                                            bias_of_scores<longest>(bias{})),
                       false, true);
}
TEST_CASE("scores: a custom variant multiplies the products") {
  TestProgram<roots<type_of<decltype(attention<doubled, size<2>>(q{}, k{}, v{}))>>, inference> p(at<tokens>(5));
  auto const found = p.forward();
  std::vector<double> twice = p.values(q{});
  for (double& e : twice) e *= 2;
  auto const expected =
      attend<causal>({{twice.data(), 5, 12}, p.in(k{}), p.in(v{}), uniform(1, 5), uniform(1, 5), 1, 2});
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close(found.data[i], expected[i]));
}
TEST_CASE("scores: the gradient of a bias is a sum over sequences, zero where nobody looks") {
  gradcheck_options o;
  o.token_sequences = uniform(2, 3);
  TestProgram<roots<type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, bias_of_scores<longest>(bias{})))>>> p(
      o);
  p.forward();
  p.backward();
  for (Index t = 0; t < 7; ++t) {
    for (Index s = 0; s < 7; ++s) {
      // The first query sees one key, with probability 1.
      for (Index h = 0; h < 4; ++h) CHECK((p.gradient(bias{})(t * 7 + s, h) != 0) == (t < 3 && s <= t && t > 0));
    }
  }
}
TEST_CASE("scores: a bias for fewer keys than a sequence has is refused") {
  TestProgram<roots<type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, bias_of_scores<longest>(bias{})))>>> p(
      at<tokens>(8));
  CHECK_THROWS_WITH_AS(p.forward(), doctest::Contains("the score_bias is for 7 keys, sequence 0 has 8"), Error);
}

}  // namespace scores_test
