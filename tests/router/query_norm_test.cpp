// SPDX-License-Identifier: MIT
// QueryNorm: its numbers by their formulas, its estimators against their definitions, and queries of equal norm.

#include "headmix/router/query_norm.hpp"

#include <algorithm>

#include "../test_program.hpp"

namespace query_norm_test {

using namespace headmix;
using namespace headmix::test;

namespace {

constexpr Index H = 3;
/// Queries of two shared and four routed heads.
struct q : input<tokens, size<6 * H>> {};
struct gate_weights : input<tokens, size<6>> {};
struct of_active : input<tokens, size<4>> {};

using All = QueryNorm<2, 4, 2>::route<q>;
using Active = QueryNorm<2, 4, 2, estimator::active>::route<q>;

}  // namespace

TEST_CASE("query norm: lengths over their deviation, softmax, the best ones") {
  for (Index const rows : {0, 1, 7}) {
    TestProgram<roots<type_of<decltype(All::p)>, type_of<decltype(All::n)>, type_of<decltype(All::chosen)>,
                      type_of<decltype(All::index)>, type_of<decltype(All::gate)>, type_of<decltype(Active::index)>,
                      type_of<decltype(Active::gate)>>,
                inference>
        p(at<tokens>(rows));
    auto const found = p.forward();
    auto const chosen = p.program.get(All::chosen);
    for (Index t = 0; t < rows; ++t) {
      CAPTURE(t);
      double n[4], mean = 0, variance = 0, sum = 0;
      for (Index i = 0; i < 4; ++i) {
        double square = 0;
        for (Index c = 0; c < H; ++c) square += std::pow(p.in(q{})(t, (2 + i) * H + c), 2);
        n[i] = std::sqrt(square);
        mean += n[i] / 4;
        CHECK(close(p.program.get(All::n)(t, i), n[i]));
      }
      for (double const e : n) variance += (e - mean) * (e - mean) / 3;
      for (double const e : n) sum += std::exp(e / std::sqrt(variance));
      for (Index i = 0; i < 4; ++i) CHECK(close(found(t, i), std::exp(n[i] / std::sqrt(variance)) / sum));
      for (Index k = 0; k < 2; ++k) {
        CHECK(std::count_if(n, n + 4, [&](double e) { return e > n[chosen(t, k)]; }) == k);
        CHECK(p.program.get(Active::index)(t, k) == k);
        CHECK(p.program.get(Active::index)(t, 2 + k) == 2 + chosen(t, k));
      }
      for (Index i = 0; i < 6; ++i) {
        bool const on = i < 2 || chosen(t, 0) == i - 2 || chosen(t, 1) == i - 2;
        CHECK(p.program.get(All::index)(t, i) == i);
        CHECK(p.program.get(All::gate)(t, i) == (on ? 1 : 0));
        if (i < 4) CHECK(p.program.get(Active::gate)(t, i) == 1);
      }
    }
  }
}
TEST_CASE("query norm: gradients of the scores") { check_gradient(All::p); }
TEST_CASE(
    "query norm: the gradient of all weights is that of the scores, of the active ones that of the chosen scores") {
  constexpr auto all = gate_weights{} * All::gate;
  constexpr auto active = of_active{} * Active::gate;
  constexpr auto scores = gather_cols(gate_weights{}, iota_cols<size<2>, size<4>, size<6>>(gate_weights{})) * All::p;
  constexpr auto chosen_scores =
      gather_cols(of_active{}, iota_cols<size<2>, size<2>, size<4>>(of_active{})) * gather_cols(All::p, All::chosen);
  TestProgram<roots<type_of<decltype(all)>, type_of<decltype(sum(active))>>> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(sum(scores))>, type_of<decltype(sum(chosen_scores))>>> r(at<tokens>(7));
  r.values(q{}) = p.values(q{});
  r.values(gate_weights{}) = p.values(gate_weights{});
  r.values(of_active{}) = p.values(of_active{});
  p.forward();
  r.forward();
  std::fill(p.dy_values.begin(), p.dy_values.end(), 1.0);
  std::fill(r.dy_values.begin(), r.dy_values.end(), 1.0);
  p.backward({0});
  r.backward({0});
  for (std::size_t i = 0; i < p.gradients(q{}).size(); ++i) {
    CHECK(close(p.gradients(q{})[i], r.gradients(q{})[i]));
    // Queries of shared heads are not compared.
    CHECK((std::abs(p.gradients(q{})[i]) > 1e-9) == (i % (6 * H) >= 2 * H));
  }
  p.zero_gradients();
  r.zero_gradients();
  std::fill(p.dy_values.begin(), p.dy_values.end(), 0.0);
  std::fill(r.dy_values.begin(), r.dy_values.end(), 0.0);
  p.backward({1});
  r.backward({1});
  for (std::size_t i = 0; i < p.gradients(q{}).size(); ++i) CHECK(close(p.gradients(q{})[i], r.gradients(q{})[i]));
}
TEST_CASE("query norm: of equal queries, zeros for one, the first are chosen, and gradients are finite") {
  for (double const value : {0.0, 0.5}) {
    TestProgram<roots<type_of<decltype(All::gate)>, type_of<decltype(All::chosen)>>> p(at<tokens>(2));
    p.values(q{}).assign(p.values(q{}).size(), value);
    auto const gate = p.forward();
    p.backward();
    for (Index t = 0; t < 2; ++t) {
      CHECK((p.program.get(All::chosen)(t, 0) == 0 && p.program.get(All::chosen)(t, 1) == 1));
      for (Index i = 0; i < 6; ++i) CHECK(gate(t, i) == (i < 4 ? 1 : 0));
    }
    for (double const g : p.gradients(q{})) CHECK(std::isfinite(g));
    if (value == 0) {
      for (double const g : p.gradients(q{})) CHECK(g == 0);
    }
  }
}
TEST_CASE("query norm: the loss, and its value at balance") {
  using R = QueryNorm<0, 6, dynamic, loss::head_balance>;
  using L = nth<0, R::route<q>::losses>;
  CHECK(gradcheck(L{}, at<tokens>(7), at<R::routed_top_k>(2)).ok());
  // Equal queries have equal scores.
  TestProgram<roots<L>> p(at<tokens>(3), at<R::routed_top_k>(4));
  p.values(q{}).assign(p.values(q{}).size(), 0.25);
  CHECK(close(p.forward()(0, 0), 4));
}

/// Two lengths always differ from their mean by the same amount, so the probabilities of two heads are constants, also
/// in float.
TEST_CASE("query norm: the probabilities of two heads have no gradient, in float") {
  struct two : input<tokens, size<2 * H>> {};
  using P = QueryNorm<0, 2, 1>::route<two>;
  TestProgram<roots<type_of<decltype(P::p)>>, training, float> p(at<tokens>(9));
  p.forward();
  p.backward();
  for (float const g : p.gradients(two{})) CHECK(std::abs(g) < 1e-6f);
}

}  // namespace query_norm_test
