// SPDX-License-Identifier: MIT
// Attention of chosen heads, against loops, and its gradients by differences.

#include <array>

#include "../test_program.hpp"
#include "attend.hpp"
#include "headmix/expr/attention.hpp"

namespace chosen_heads_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct heads : size<4> {};
struct picks : selection<tokens, size<2>, heads> {};
struct q : input<times<size<2>, tokens>, size<3>> {};
struct k : input<tokens, size<6>> {};
struct v : input<tokens, size<6>> {};
struct k_tokens : input<tokens, size<3>> {};
struct v_tokens : input<tokens, size<3>> {};
struct k_one : input<context_tokens, size<3>> {};
struct v_one : input<context_tokens, size<3>> {};

struct checkered {
  static constexpr bool sees(Index t, Index s) { return s == t || (s + t) % 3 == 0; }
};

/// Choices of seven tokens: one without a head, some with one head; the rest chose head 3.
std::vector<Int> const some{3, 1, -1, -1, 0, 3, 3, 0, 3, -1, -1, 3, 1, 3};

template <Expr Y, class Filled, class Plain>
void check_rows(Y, Filled chosen, Plain plain) {
  static std::array<Int, 6> const offsets{0, 3, 3, 4, 4, 7};
  for (Index const n : {0, 1, 7, -7}) {
    gradcheck_options o;
    segments s = uniform(1, n);
    if (0 > n) o.token_sequences = s = ragged(offsets.data(), 5);
    TestProgram<roots<Y>> p(o, at<tokens>(s.rows));
    chosen(p.values(picks{}), s.rows);
    auto const found = p.forward();
    auto const expected = plain(p, s);
    CAPTURE(n);
    REQUIRE(static_cast<std::size_t>(found.size()) == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(close(found.data[i], expected[i]));
    }
    auto const r = p.check_gradients();
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}
void fill_some(std::vector<Int>& chosen, Index rows) {
  std::copy_n(some.begin(), static_cast<std::size_t>(2 * rows), chosen.begin());
}
template <class Mask, Index KvHeads>
auto plain_attention() {
  return [](auto& p, segments s) {
    return attend<Mask>({p.in(q{}), p.in(k{}), p.in(v{}), s, s, 2, KvHeads, p.in(picks{}), 4});
  };
}
/// One list for each of the two key/value heads.
template <class Mask>
constexpr auto by_kv_head = attention<Mask, size<2>>(q{}, k{}, v{}, rows_of_kv_heads<size<2>>(picks{}));
template <class Mask>
constexpr auto grouped = attention<Mask, size<2>>(q{}, k{}, v{}, rows_of_heads(picks{}));

}  // namespace

TEST_CASE("chosen heads: two heads of four over two key/value heads, some rows without") {
  check_rows(grouped<causal>, fill_some, plain_attention<causal, 2>());
}
TEST_CASE("chosen heads: rows of the heads of a key/value head in one list") {
  check_rows(by_kv_head<causal>, fill_some, plain_attention<causal, 2>());
  check_rows(by_kv_head<checkered>, fill_some, plain_attention<checkered, 2>());
  check_rows(attention<full>(q{}, k_tokens{}, v_tokens{}, rows_of_kv_heads<size<1>>(picks{})), fill_some,
             [](auto& p, segments s) {
               return attend<full>({p.in(q{}), p.in(k_tokens{}), p.in(v_tokens{}), s, s, 2, 1, p.in(picks{}), 4});
             });
}
TEST_CASE("chosen heads: a user's mask") { check_rows(grouped<checkered>, fill_some, plain_attention<checkered, 2>()); }
TEST_CASE("chosen heads: nobody chose anything") {
  TestProgram<roots<type_of<decltype(grouped<causal>)>>> p(at<tokens>(3));
  p.values(picks{}).assign(6, -1);
  auto const o = p.forward();
  p.backward();
  for (Index i = 0; i < o.size(); ++i) CHECK((o.data[i] == 0 && p.gradients(q{})[static_cast<std::size_t>(i)] == 0));
  for (double const g : p.gradients(k{})) CHECK(g == 0);
  for (double const g : p.gradients(v{})) CHECK(g == 0);
}
TEST_CASE("chosen heads: a head that nobody chose has no gradient, the keys of one that was chosen have") {
  TestProgram<roots<type_of<decltype(grouped<full>)>>> p(at<tokens>(3));
  p.values(picks{}) = {3, 2, -1, 3, 2, -1};
  p.forward();
  p.backward();
  // Heads 0 and 1 read the first key/value head.
  for (Index i = 0; i < 3; ++i) {
    for (Index c = 0; c < 3; ++c) {
      CHECK((p.gradient(k{})(i, c) == 0 && p.gradient(v{})(i, c) == 0));
      CHECK((p.gradient(k{})(i, c + 3) != 0 && p.gradient(v{})(i, c + 3) != 0));
    }
  }
}
TEST_CASE("chosen heads: keys of another input, of another length in every sequence") {
  static std::array<Int, 4> const queries{0, 2, 3, 6}, keys{0, 5, 5, 8};
  constexpr auto y = attention<full>(q{}, k_one{}, v_one{}, rows_of_heads(picks{}));
  gradcheck_options o;
  o.token_sequences = ragged(queries.data(), 3);
  o.context_sequences = ragged(keys.data(), 3);
  TestProgram<roots<type_of<decltype(y)>>> p(o);
  p.values(picks{}) = {2, 1, 3, -1, 0, 1, -1, 2, 1, 0, 3, 2};
  auto const found = p.forward();
  auto const expected = attend<full>(
      {p.in(q{}), p.in(k_one{}), p.in(v_one{}), o.token_sequences, o.context_sequences, 2, 1, p.in(picks{}), 4});
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(close(found.data[i], expected[i]));
  // The second sequence has no keys.
  for (Index c = 0; c < 3; ++c) CHECK((found(4, c) == 0 && found(5, c) == 0 && found(0, c) != 0));
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
}
TEST_CASE("chosen heads: gradients with dropout") {
  constexpr auto y = attention<causal, size<2>, draws::keep<1, 3>>(q{}, k{}, v{}, rows_of_heads(picks{}));
  TestProgram<roots<type_of<decltype(y)>>> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(grouped<causal>)>>> without(at<tokens>(7));
  fill_some(p.values(picks{}), 7);
  fill_some(without.values(picks{}), 7);
  without.values(q{}) = p.values(q{});
  without.values(k{}) = p.values(k{});
  without.values(v{}) = p.values(v{});
  auto const r = p.check_gradients();
  CAPTURE(r.text);
  CHECK(r.ok());
  auto const o = p.forward(), all = without.forward();
  CHECK_FALSE(std::equal(o.data, o.data + o.size(), all.data));
}

}  // namespace chosen_heads_test
