// SPDX-License-Identifier: MIT
// Score maps against softmax(map(q k^T / sqrt(d_h))) v, composed of ordinary operations on a matrix of queries x keys,
// and their gradients by differences.

#include <array>

#include "../test_program.hpp"
#include "headmix/expr/attention.hpp"
#include "headmix/expr/linear.hpp"
#include "headmix/expr/softmax.hpp"
#include "headmix/layer/scores.hpp"

namespace score_maps_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct heads : size<4> {};
struct q : input<tokens, size<12>> {};
struct k : input<tokens, size<6>> {};
struct v : input<tokens, size<6>> {};
struct q_of_slots : input<times<size<2>, tokens>, size<3>> {};
struct q_of_experts : input<times<size<3>, tokens>, size<6>> {};
struct picks : selection<tokens, size<2>, heads> {};
struct longest : size<7> {};
struct bias : param<times<longest, longest>, heads> {};

/// Score maps: learned slopes, a learned cap for all heads, and a map with all symbols.
struct far_is_less : score_map {
  template <Extent E>
  struct slope : param<E> {};
  static constexpr auto f(auto s, auto e) { return s - slope<decltype(e)>{} * abs(query_position{} - key_position{}); }
};
struct learned_cap : score_map {
  struct cap : param<size<1>> {};
  static constexpr auto f(auto s) { return softplus(cap{}) * tanh(s / softplus(cap{})); }
};
struct everything : score_map {
  template <Extent E>
  struct a : param<E> {};
  struct b : param<size<1>> {};
  template <Extent E>
  static constexpr auto f(auto s, E) {
    return s * exp(a<E>{}) + b{} * square(tanh(s)) + a<E>{} * head_index{} - sigmoid(key_position{}) * s;
  }
};

struct one_head_q : input<tokens, size<4>> {};
struct one_head_k : input<context_tokens, size<4>> {};
struct one_head_v : input<context_tokens, size<4>> {};
struct places_q : constant<tokens, size<1>> {};
struct places_k : constant<size<1>, context_tokens> {};
struct no_head : constant<size<1>> {};

/// E with the composed twin's expressions instead of the symbols.
template <class E>
struct composed_of {
  using type = E;
};
template <>
struct composed_of<query_position> {
  using type = places_q;
};
template <>
struct composed_of<key_position> {
  using type = places_k;
};
template <>
struct composed_of<head_index> {
  using type = no_head;
};
template <>
struct composed_of<headmix::detail::score_before> {
  using type = decltype(one_head_q{} % t(one_head_k{}) * number<1, 2>{});
};
template <class Op, class... A>
requires(headmix::detail::mentions_symbol<detail::node<Op, A...>>::value) struct composed_of<detail::node<Op, A...>> {
  using type = applied<Op, typename composed_of<A>::type...>;
};

/// One head of 5 queries and 6 keys: value and all gradients equal those of the composed expression.
template <class... M>
void check_composed(M... maps) {
  using mapped = decltype(headmix::detail::map_score<size<1>, M...>(headmix::detail::score_before{}));
  TestProgram<roots<type_of<decltype(attention<full>(one_head_q{}, one_head_k{}, one_head_v{}, maps...))>>> one(
      at<tokens>(5), at<context_tokens>(6));
  TestProgram<roots<decltype(softmax(typename composed_of<mapped>::type{}) % one_head_v{})>> composed(
      at<tokens>(5), at<context_tokens>(6));
  for_each(typename decltype(composed)::program_type::leaves{}, [&]<class L>() {
    auto& values = composed.values(L{});
    if constexpr (std::is_same_v<L, places_q> || std::is_same_v<L, places_k>) {
      // Under a full mask, queries and keys are numbered separately.
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    } else if constexpr (std::is_same_v<L, no_head>) {
      values[0] = 0;
    } else {
      values = one.values(L{});
    }
  });
  auto const y = one.forward(), twin = composed.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], twin.data[i]));
  one.backward();
  composed.backward();
  for_each(typename decltype(one)::program_type::leaves{}, [&]<class L>() {
    if constexpr (L::grad) {
      auto const &a = one.gradients(L{}), &b = composed.gradients(L{});
      CAPTURE(type_name<L>());
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(close(a[i], b[i]));
        sum += std::abs(b[i]);
      }
      CHECK(sum > 0);
    }
  });
}

/// Finite differences, with one sequence and with ragged ones.
template <Expr Y>
void check_maps(Y) {
  static std::array<Int, 5> const offsets{0, 3, 3, 4, 7};
  static std::vector<Int> const some{3, 1, -1, -1, 0, 3, 3, 0, 3, -1, -1, 3, 1, 3};
  for (Index const n : {0, 1, 7, -7}) {
    gradcheck_options o;
    segments s = uniform(1, n);
    if (0 > n) o.token_sequences = s = ragged(offsets.data(), 4);
    TestProgram<roots<Y>> p(o, at<tokens>(s.rows));
    if constexpr (detail::contains<leaves_of<roots<Y>>, picks>) {
      std::copy_n(some.begin(), static_cast<std::size_t>(2 * s.rows), p.values(picks{}).begin());
    }
    auto const r = p.check_gradients();
    CAPTURE(n);
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}

/// Scores grow with distance, to infinite derivatives for distant keys.
struct far_is_more : score_map {
  static constexpr auto f(auto s) { return s * exp(number<1000>{} * (key_position{} - query_position{})); }
};
struct cap_1 : param<size<1>> {};
struct cap_2 : param<size<1>> {};
template <class Cap>
struct divided_by : score_map {
  static constexpr auto f(auto s) { return s / Cap{}; }
};
/// The query at position 2 sees no key.
struct blinding {
  static constexpr bool sees(Index t, Index s) { return t != 2 && s <= t; }
};

}  // namespace

TEST_CASE("score maps: a soft cap is the composed expression") { check_composed(soft_cap<3, 2>{}); }
TEST_CASE("score maps: ALiBi is the composed expression") { check_composed(alibi{}); }
TEST_CASE("score maps: a cap bound at run time is the composed expression") { check_composed(soft_cap<dynamic>{}); }
TEST_CASE("score maps: learned operands are the composed expression") {
  check_composed(far_is_less{});
  check_composed(learned_cap{});
  check_composed(everything{});
}
TEST_CASE("score maps: several come one after the other") {
  check_composed(alibi{}, soft_cap<1>{});
  check_composed(soft_cap<1>{}, alibi{}, far_is_less{}, learned_cap{});
}
TEST_CASE("score maps: gradients of grouped heads") {
  check_maps(attention<causal, size<2>>(q{}, k{}, v{}, everything{}));
  check_maps(attention<sliding_window<3>, size<2>>(q{}, k{}, v{}, alibi{}, soft_cap<1, 2>{}));
}
TEST_CASE("score maps: gradients of several rows for each token") {
  check_maps(attention<causal, size<1>>(q_of_experts{}, k{}, v{}, learned_cap{}));
  check_maps(attention<full, size<2>>(q_of_experts{}, k{}, v{}, far_is_less{}));
}
TEST_CASE("score maps: gradients of chosen heads, with a bias") {
  check_maps(attention<causal, size<2>>(q_of_slots{}, k{}, v{}, everything{}, rows_of_heads(picks{})));
  check_maps(attention<unscaled<causal>, size<2>>(q_of_slots{}, k{}, v{}, rows_of_heads(picks{}), learned_cap{},
                                                  bias_of_scores<longest>(bias{})));
}
TEST_CASE("score maps: gradients with dropout") {
  check_maps(attention<causal, size<2>, draws::keep<3, 10>>(q{}, k{}, v{}, everything{}));
}
TEST_CASE("score maps: a query that sees no key gives zero, and its gradients are zero") {
  TestProgram<roots<type_of<decltype(attention<blinding, size<2>>(q{}, k{}, v{}, everything{}))>>> p(at<tokens>(3));
  auto const y = p.forward();
  p.backward();
  for (Index c = 0; c < 12; ++c) {
    CHECK(y(2, c) == 0);
    CHECK(p.gradient(q{})(2, c) == 0);
    CHECK(y(1, c) != 0);
  }
  for (Index c = 0; c < 6; ++c) CHECK(p.gradient(k{})(2, c) == 0);
}
TEST_CASE("score maps: hidden scores stay hidden, whatever a map makes of them") {
  TestProgram<roots<type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, far_is_more{}))>>> p(at<tokens>(6));
  auto const y = p.forward();
  p.backward();
  for (Index i = 0; i < y.size(); ++i) CHECK(std::isfinite(y.data[i]));
  for (double const g : p.gradients(q{})) CHECK(std::isfinite(g));
  for (double const g : p.gradients(k{})) CHECK(std::isfinite(g));
}
TEST_CASE("score maps: one list for all, with the extent that counts heads") {
  struct wide_heads : size<4> {};
  using y = type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, score_maps<wide_heads, alibi, soft_cap<1>>{}))>;
  static_assert(detail::contains<leaves_of<roots<y>>, alibi::slopes<wide_heads>>);
  TestProgram<roots<y>> p(at<tokens>(5));
  TestProgram<roots<type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, alibi{}, soft_cap<1>{}))>>> twin(
      at<tokens>(5));
  auto const a = p.forward(), b = twin.forward();
  for (Index i = 0; i < a.size(); ++i) CHECK(a.data[i] == b.data[i]);
  static_assert(std::is_same_v<type_of<decltype(attention<causal>(q{}, q{}, q{}, score_maps<size<1>>{}))>,
                               type_of<decltype(attention<causal>(q{}, q{}, q{}))>>);
}
TEST_CASE("score maps: slopes of ALiBi are those of its equation") {
  TestProgram<roots<type_of<decltype(attention<causal, size<2>>(q{}, k{}, v{}, alibi{}))>>> p(at<tokens>(1));
  auto const slopes = p.in(alibi::slopes<size<4>>{});
  for (Index i = 0; i < 4; ++i) CHECK(close(slopes(0, i), std::pow(2., -2. * static_cast<double>(i + 1))));
}
TEST_CASE("score maps: programs of maps with the same operations share their kernels") {
  using a = decltype(attention<causal>(q{}, q{}, q{}, divided_by<cap_1>{}));
  using b = decltype(attention<causal>(q{}, q{}, q{}, divided_by<cap_2>{}));
  static_assert(!std::is_same_v<a, b> && std::is_same_v<a::op, b::op>);
}
TEST_CASE("pointwise: the absolute value") {
  struct a : input<tokens, size<3>> {};
  check(headmix::abs(a{}), [](auto& p, Index i, Index j) { return std::abs(p.in(a{})(i, j)); });
}

}  // namespace score_maps_test
