// SPDX-License-Identifier: MIT
// Every router with every loss: the loss has a right gradient, or the options refuse it. The reasons are in
// tests/fail/loss_*.cpp.

#include <array>

#include "../test_program.hpp"
#include "headmix/router/query_norm.hpp"
#include "headmix/router/softmax_top_k.hpp"
#include "headmix/router/two_stage.hpp"

namespace losses_test {

using namespace headmix;
using namespace headmix::test;

namespace {

struct D : size<4> {};
struct x : input<tokens, D> {};
/// Queries of five heads of width two.
struct q : input<tokens, size<10>> {};

using all_losses = type_list<loss::load_balance, loss::first_choice_balance, loss::z, loss::z_with_padding,
                             loss::head_balance, loss::head_balance_unscaled, loss::cv_squared>;
/// The losses that a schema of options refuses: a 1 in the place of each.
template <class Options, class... L>
constexpr std::array<int, sizeof...(L)> refused_of(type_list<L...>) {
  return {Options::template is_refused<L>...};
}
template <class Router>
constexpr auto refused = refused_of<typename Router::O>(all_losses{});
constexpr std::array<int, 7> nothing{};

template <class... A>
constexpr auto weighed_sum(type_list<A...>) {
  return []<int... I>(std::integer_sequence<int, I...>) { return ((number<I + 1>{} * A{}) + ...); }
  (std::make_integer_sequence<int, sizeof...(A)>{});
}
/// The router has the expected number of losses, with right gradients for several rows, one and none.
template <class Route, int Expected>
void check() {
  static_assert(Route::losses::size == Expected, "a loss was dropped");
  constexpr auto sum = weighed_sum(typename Route::losses{});
  for (Index const rows : {7, 1, 0}) {
    CAPTURE(rows);
    auto const found = gradcheck(sum, at<tokens>(rows));
    CHECK_MESSAGE(found.ok(), found.text);
  }
}

/// The values p and chosen of a route, and a loss.
template <class Route, int Which>
struct values {
  using loss = nth<Which, typename Route::losses>;
  TestProgram<roots<type_of<decltype(Route::p)>, type_of<decltype(Route::chosen)>, loss>> p{at<tokens>(7)};
  double sum_of_products = 0;  ///< sum of mean probability times share of rows, over the experts
  double first = 0;            ///< likewise, with first choices only
  Index experts, top_k;

  values() {
    p.forward();
    auto const prob = p.program.get(Route::p);
    auto const chosen = p.program.get(Route::chosen);
    experts = prob.cols, top_k = chosen.cols;
    for (Index e = 0; e < experts; ++e) {
      double mean = 0, rows = 0, firsts = 0;
      for (Index t = 0; t < 7; ++t) {
        mean += prob(t, e) / 7;
        for (Index j = 0; j < top_k; ++j) rows += chosen(t, j) == e;
        firsts += chosen(t, 0) == e;
      }
      sum_of_products += mean * rows / 7;
      first += mean * firsts / 7;
    }
  }
  double found() { return p.program.get(loss{})(0, 0); }
};
template <class Route>
void check_balances() {
  values<Route, 0> load;
  auto const experts = static_cast<double>(load.experts);
  CHECK(close(load.found(), experts * load.sum_of_products / static_cast<double>(load.top_k), 1e-10));
  values<Route, 1> first;
  CHECK(close(first.found(), experts * first.first));
  values<Route, 2> heads;
  CHECK(close(heads.found(), experts * heads.sum_of_products));
  values<Route, 3> unscaled;
  CHECK(close(unscaled.found(), unscaled.sum_of_products));
}

using loss::cv_squared;
using loss::first_choice_balance;
using loss::head_balance;
using loss::head_balance_unscaled;
using loss::load_balance;
using loss::z;
using loss::z_with_padding;

template <class... Options>
using softmax_route = typename SoftmaxTopK<5, 2, load_balance, first_choice_balance, head_balance,
                                           head_balance_unscaled, z, Options...>::template route<x>;
template <Index Shared, class... Options>
using two_stage_route = typename TwoStage<Shared, 4, 2, load_balance, first_choice_balance, head_balance,
                                          head_balance_unscaled, z, cv_squared, Options...>::template route<x>;
template <Index Shared, Index Routed, class... Options>
using query_route = typename QueryNorm<Shared, Routed, 2, load_balance, first_choice_balance, head_balance,
                                       head_balance_unscaled, Options...>::template route<q>;

}  // namespace

// Digits are in the order of all_losses.
static_assert(refused<SoftmaxTopK<5, 2>> == nothing, "SoftmaxTopK takes all losses");
static_assert(refused<SoftmaxTopK<dynamic, dynamic>> == nothing, "SoftmaxTopK takes all losses");
static_assert(refused<TwoStage<2, 4, 2>> == std::array{0, 0, 0, 1, 0, 0, 0}, "TwoStage sees no rows of padding");
static_assert(refused<TwoStage<0, 4, 2>> == refused<TwoStage<2, 4, 2>>, "likewise");
static_assert(refused<TwoStage<dynamic, dynamic, dynamic>> == refused<TwoStage<2, 4, 2>>, "likewise");
static_assert(refused<TwoStage<4, 0, 0>> == std::array{1, 1, 1, 1, 1, 1, 0}, "no choice without routed heads");
static_assert(refused<TwoStage<1, 0, 0>> == std::array{1, 1, 1, 1, 1, 1, 1}, "nor other weights than 1");
static_assert(refused<QueryNorm<2, 3, 2>> == std::array{0, 0, 1, 1, 0, 0, 1}, "QueryNorm has no logits");
static_assert(refused<QueryNorm<2, 3, 2, estimator::active>> == refused<QueryNorm<2, 3, 2>>, "likewise");

TEST_CASE("losses: every loss of SoftmaxTopK has the right gradient, with every gating and with noise") {
  check<softmax_route<>, 5>();
  static_assert(softmax_route<cv_squared>::losses::size == 6, "its gradient is detached from the sum by intention");
  check<softmax_route<gating::raw, cv_squared>, 6>();
  check<softmax_route<gating::renormalized, cv_squared>, 6>();
  check<softmax_route<gating::raw, cv_squared, noise<>>, 6>();
}
TEST_CASE("losses: z_with_padding of SoftmaxTopK without padding is z") {
  using route = SoftmaxTopK<5, 2, z, z_with_padding>::route<x>;
  check<route, 2>();
  TestProgram<roots<nth<0, route::losses>, nth<1, route::losses>>> p(at<tokens>(7));
  p.forward();
  CHECK(p.program.get(nth<0, route::losses>{})(0, 0) == p.program.get(nth<1, route::losses>{})(0, 0));
}
TEST_CASE("losses: every loss of TwoStage has the right gradient, with shared heads and without, scaled either way") {
  check<two_stage_route<2>, 6>();
  check<two_stage_route<1>, 6>();
  check<two_stage_route<0>, 6>();
  check<two_stage_route<2, scaling::paper>, 6>();
}
TEST_CASE("losses: TwoStage without routed heads keeps the loss that it takes") {
  check<TwoStage<4, 0, 0, cv_squared>::route<x>, 1>();
  static_assert(TwoStage<4, 0, 0>::route<x>::losses::size == 0, "and has none by itself");
}
TEST_CASE("losses: every loss of QueryNorm has the right gradient, with either estimator") {
  check<query_route<2, 3>, 4>();
  check<query_route<0, 5>, 4>();
  check<query_route<2, 3, estimator::active>, 4>();
}
TEST_CASE("losses: balances count choices among the routed experts, by their definitions") {
  check_balances<softmax_route<>>();
  check_balances<two_stage_route<2>>();
  check_balances<query_route<2, 3>>();
}
TEST_CASE("losses: z of TwoStage is that of the routed heads' logits") {
  using route = two_stage_route<2>;
  using loss = nth<4, route::losses>;
  TestProgram<roots<loss, type_of<decltype(route::p)>>> p(at<tokens>(3));
  p.forward();
  auto const a = p.in(x{});
  double expected = 0;
  for (Index t = 0; t < 3; ++t) {
    double sum = 0;
    for (Index e = 0; e < 4; ++e) {
      double z = 0;
      for (Index i = 0; i < 4; ++i) z += a(t, i) * p.in(route::W_r{})(i, e);
      sum += std::exp(z);
    }
    expected += std::pow(std::log(sum), 2) / 3;
  }
  CHECK(close(p.program.get(loss{})(0, 0), expected));
}

}  // namespace losses_test
