// SPDX-License-Identifier: MIT
// Attention against a double loop, its gradients by differences, and its composed twin. Masks. Rotary embedding.

#include "headmix/expr/attention.hpp"

#include <array>

#include "../test_program.hpp"
#include "attend.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/expr/softmax.hpp"

namespace attention_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct q1 : input<tokens, size<3>> {};
struct k1 : input<tokens, size<3>> {};
struct v1 : input<tokens, size<3>> {};
struct q4 : input<tokens, size<12>> {};
struct k4 : input<tokens, size<12>> {};
struct v4 : input<tokens, size<12>> {};
struct k2 : input<tokens, size<6>> {};
struct v2 : input<tokens, size<6>> {};
struct slots : input<times<size<2>, tokens>, size<3>> {};
struct wide_slots : input<times<size<2>, tokens>, size<6>> {};
struct k_far : input<context_tokens, size<3>> {};
struct v_far : input<context_tokens, size<3>> {};

/// Sees every other key and its own; has no range.
struct checkered {
  static constexpr bool sees(Index t, Index s) { return s == t || (s + t) % 3 == 0; }
};
/// The query at position 2 sees no key.
struct blinding {
  static constexpr bool sees(Index t, Index s) { return t != 2 && s <= t; }
};

/// Value and gradients of attention<Mask, KvHeads>(q, k, v), one sequence and ragged.
template <class Mask, class KvHeads = size<1>, Leaf Q, Leaf K, Leaf V>
void check_attention(Q, K, V, Index per_token = 1) {
  constexpr auto y = attention<Mask, KvHeads>(Q{}, K{}, V{});
  static std::array<Int, 5> const offsets{0, 3, 3, 4, 7};
  for (Index const rows : {0, 1, 7, -7}) {
    gradcheck_options o;
    segments s = uniform(1, rows);
    if (rows < 0) o.token_sequences = s = ragged(offsets.data(), 4);
    TestProgram<roots<type_of<decltype(y)>>> p(o, at<tokens>(s.rows));
    auto const found = p.forward();
    auto const expected = attend<Mask>({p.in(Q{}), p.in(K{}), p.in(V{}), s, s, per_token, KvHeads::value});
    CAPTURE(rows);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(close(found.data[i], expected[i]));
    }
    auto const r = gradcheck(y, o, at<tokens>(s.rows));
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}

template <class Mask>
void check_range() {
  for (Index keys = 0; keys < 9; ++keys) {
    for (Index t = 0; t < keys; ++t) {
      key_range const range = visible_keys<Mask>(t, keys);
      CHECK(range.begin >= 0);
      CHECK(range.end <= keys);
      for (Index s = 0; s < keys; ++s) {
        bool const inside = s >= range.begin && s < range.end;
        CAPTURE(t);
        CAPTURE(s);
        if (Mask::sees(t, s)) CHECK(inside);
        if (dense_mask<Mask> && inside) CHECK(Mask::sees(t, s));
      }
    }
  }
}

}  // namespace

TEST_CASE("attention: one head, every key") { check_attention<full>(q1{}, k1{}, v1{}); }
TEST_CASE("attention: one head, causal") { check_attention<causal>(q1{}, k1{}, v1{}); }
TEST_CASE("attention: one head, a sliding window") { check_attention<sliding_window<2>>(q1{}, k1{}, v1{}); }
TEST_CASE("attention: one head, a user's mask") { check_attention<checkered>(q1{}, k1{}, v1{}); }
TEST_CASE("attention: a query that sees no key, among others") { check_attention<blinding>(q1{}, k1{}, v1{}); }
TEST_CASE("attention: multi-head") { check_attention<causal, size<4>>(q4{}, k4{}, v4{}); }
TEST_CASE("attention: grouped-query") { check_attention<full, size<2>>(q4{}, k2{}, v2{}); }
TEST_CASE("attention: multi-query") { check_attention<causal, size<1>>(q4{}, k1{}, v1{}); }
TEST_CASE("attention: several rows of one token on one key/value head") {
  check_attention<causal>(slots{}, k1{}, v1{}, 2);
}
TEST_CASE("attention: several rows of one token, several heads each") {
  check_attention<sliding_window<3>, size<2>>(wide_slots{}, k2{}, v2{}, 2);
}
TEST_CASE("attention: a query that sees no key gives output zero and gradient zero") {
  TestProgram<roots<type_of<decltype(attention<blinding>(q1{}, k1{}, v1{}))>>> p(at<tokens>(3));
  auto const y = p.forward();
  p.backward();
  for (Index c = 0; c < 3; ++c) {
    CHECK(y(2, c) == 0);
    CHECK(p.gradient(q1{})(2, c) == 0);
    CHECK(p.gradient(k1{})(2, c) == 0);
    CHECK(p.gradient(v1{})(2, c) == 0);
    CHECK(p.gradient(v1{})(1, c) != 0);
  }
}
TEST_CASE("attention: keys and values from another input, of another length in every sequence") {
  static std::array<Int, 4> const queries{0, 2, 3, 6}, keys{0, 5, 9, 12};
  constexpr auto y = attention<full>(slots{}, k_far{}, v_far{});
  gradcheck_options o;
  o.token_sequences = ragged(queries.data(), 3);
  o.context_sequences = ragged(keys.data(), 3);
  TestProgram<roots<type_of<decltype(y)>>> p(o);
  auto const found = p.forward();
  auto const expected =
      attend<full>({p.in(slots{}), p.in(k_far{}), p.in(v_far{}), o.token_sequences, o.context_sequences, 2, 1});
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close(found.data[i], expected[i]));
  auto const r = gradcheck(y, o, at<tokens>(6), at<context_tokens>(12));
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("attention: fewer queries than keys are the last ones") {
  constexpr auto y = attention<causal>(q1{}, k_far{}, v_far{});
  gradcheck_options o;
  o.token_sequences = uniform(2, 2);
  o.context_sequences = uniform(2, 5);
  TestProgram<roots<type_of<decltype(y)>>> p(o);
  auto const found = p.forward();
  auto const expected =
      attend<causal>({p.in(q1{}), p.in(k_far{}), p.in(v_far{}), o.token_sequences, o.context_sequences, 1, 1});
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close(found.data[i], expected[i]));
  CHECK(gradcheck(y, o, at<tokens>(4), at<context_tokens>(10)).ok());
}
TEST_CASE("attention: without any key of the other input all is zero") {
  constexpr auto y = attention<full>(q1{}, k_far{}, v_far{});
  TestProgram<roots<type_of<decltype(y)>>> p(at<tokens>(3), at<context_tokens>(0));
  auto const found = p.forward();
  p.backward();
  for (Index i = 0; i < 9; ++i) {
    CHECK(found.data[i] == 0);
    CHECK(p.gradients(q1{})[static_cast<std::size_t>(i)] == 0);
  }
}
TEST_CASE("attention: is softmax(q k^T / sqrt(d_h)) v, forward and backward") {
  struct q : input<tokens, size<4>> {};
  struct k : input<context_tokens, size<4>> {};
  struct v : input<context_tokens, size<4>> {};
  TestProgram<roots<type_of<decltype(attention<full>(q{}, k{}, v{}))>>> one(at<tokens>(5), at<context_tokens>(6));
  TestProgram<roots<type_of<decltype(softmax(q{} % t(k{}) * number<1, 2>{}) % v{})>>> composed(at<tokens>(5),
                                                                                               at<context_tokens>(6));
  composed.values(q{}) = one.values(q{});
  composed.values(k{}) = one.values(k{});
  composed.values(v{}) = one.values(v{});
  auto const y = one.forward(), twin = composed.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], twin.data[i]));
  one.backward();
  composed.backward();
  auto const same = [](std::vector<double> const& a, std::vector<double> const& b) {
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i]));
  };
  same(one.gradients(q{}), composed.gradients(q{}));
  same(one.gradients(k{}), composed.gradients(k{}));
  same(one.gradients(v{}), composed.gradients(v{}));
}
TEST_CASE("attention: large scores do not overflow") {
  TestProgram<roots<type_of<decltype(attention<full>(q1{}, k1{}, v1{}))>>> p(at<tokens>(4));
  for (double& e : p.values(q1{})) e *= 1e4;
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < y.size(); ++i) CHECK(std::abs(y.data[i]) <= 1);
  for (double const g : p.gradients(k1{})) CHECK(std::isfinite(g));
}
TEST_CASE("attention: one value used as query, key and value") { check_gradient(attention<causal>(q1{}, q1{}, q1{})); }
TEST_CASE("masks: ranges agree with what is seen") {
  check_range<full>();
  check_range<causal>();
  check_range<sliding_window<1>>();
  check_range<sliding_window<3>>();
  check_range<checkered>();
  static_assert(!dense_mask<checkered>);
}
TEST_CASE("masks: a window of one sees its own position only, a wide one is causal") {
  for (Index t = 0; t < 5; ++t) {
    for (Index s = 0; s < 5; ++s) {
      CHECK(sliding_window<1>::sees(t, s) == (s == t));
      CHECK(sliding_window<5>::sees(t, s) == causal::sees(t, s));
    }
  }
}

namespace {
struct theta : constant<size<1>> {};
struct heads_in : input<tokens, size<8>> {};
}  // namespace

TEST_CASE("rotary: pairs half a head apart turn by their position in the sequence") {
  static std::array<Int, 4> const offsets{0, 3, 3, 7};
  gradcheck_options o;
  o.token_sequences = ragged(offsets.data(), 3);
  constexpr auto y = rotary<size<2>>(heads_in{}, theta{});
  TestProgram<roots<type_of<decltype(y)>>> p(o);
  p.values(theta{})[0] = 100;
  auto const found = p.forward();
  for (Index i = 0; i < 7; ++i) {
    for (Index head = 0; head < 2; ++head) {
      for (Index c = 0; c < 2; ++c) {
        double const angle = static_cast<double>(i < 3 ? i : i - 3) * std::pow(100.0, -static_cast<double>(c) / 2);
        double const u = p.in(heads_in{})(i, head * 4 + c), v = p.in(heads_in{})(i, head * 4 + c + 2);
        CHECK(close(found(i, head * 4 + c), u * std::cos(angle) - v * std::sin(angle)));
        CHECK(close(found(i, head * 4 + c + 2), u * std::sin(angle) + v * std::cos(angle)));
      }
    }
  }
  o.low = 0.5;  // theta is positive
  CHECK(gradcheck(y, o, at<tokens>(7)).ok());
}
TEST_CASE("rotary: all rows of a token turn alike") {
  struct rows_in : input<times<size<2>, tokens>, size<4>> {};
  TestProgram<roots<type_of<decltype(rotary<size<1>>(rows_in{}, theta{}))>>> p(at<tokens>(4));
  p.values(theta{})[0] = 10;
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 4; ++j) p.in(rows_in{})(i, j) = 1 + static_cast<double>(j);
  }
  auto const y = p.forward();
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) CHECK(y(2 * i, j) == y(2 * i + 1, j));
  }
  CHECK(y(0, 0) == 1);
  CHECK(close(y(2, 0), std::cos(1.0) - 3 * std::sin(1.0)));
}
TEST_CASE("rotary: the gradient is the rotation backwards, which restores the input") {
  TestProgram<roots<type_of<decltype(rotary<size<2>>(heads_in{}, theta{}))>>> p(at<tokens>(6));
  p.values(theta{})[0] = 10000;
  auto const y = p.forward();
  p.dy = y;
  p.backward();
  for (std::size_t i = 0; i < p.values(heads_in{}).size(); ++i)
    CHECK(close(p.gradients(heads_in{})[i], p.values(heads_in{})[i]));
}
TEST_CASE("rotary: scores depend on the distance of positions alone") {
  struct one_query : input<tokens, size<4>> {};
  TestProgram<roots<type_of<decltype(rotary<size<1>>(one_query{}, theta{}))>>> p(at<tokens>(6));
  p.values(theta{})[0] = 50;
  for (Index i = 0; i < 6; ++i) {
    for (Index j = 0; j < 4; ++j) p.in(one_query{})(i, j) = static_cast<double>(j) - 1.3;
  }
  auto const y = p.forward();
  auto const product = [&](Index a, Index b) {
    double sum = 0;
    for (Index j = 0; j < 4; ++j) sum += y(a, j) * y(b, j);
    return sum;
  };
  CHECK(close(product(0, 2), product(3, 5)));
  CHECK(close(product(1, 4), product(2, 5)));
  CHECK(std::abs(product(0, 1) - product(0, 2)) > 1e-3);
}

}  // namespace attention_test
