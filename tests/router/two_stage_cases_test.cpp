// SPDX-License-Identifier: MIT
// The two-stage router with one shared head and without routed heads; logits without a gradient; the loss at balance.

#include "two_stage.hpp"

namespace two_stage_cases_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("two stages: one shared head") {
  using R = TwoStage<1, dynamic, dynamic>;
  check_router<R, false>(1, 4, 2, at<R::routed_heads>(4), at<R::routed_top_k>(2));
  check_router<R, false>(1, 3, 1, at<R::routed_heads>(3), at<R::routed_top_k>(1));
  check_router<TwoStage<1, 3, 3, scaling::paper>, true>(1, 3, 3);
}
TEST_CASE("two stages: no routed head") {
  check_router<TwoStage<4, 0, 0>, false>(4, 0, 0);
  check_router<TwoStage<3, 0, 0, scaling::paper>, true>(3, 0, 0);
  check_router<TwoStage<1, 0, 0>, false>(1, 0, 0);
  static_assert(route<TwoStage<4, 0, 0>>::losses::size == 0 && route<TwoStage<4, 0, 0>>::observed::size == 0);
}
TEST_CASE("two stages: heads that were not chosen have no gradient by the weights, by the paper's scaling they have") {
  using R = route<TwoStage<2, 5, 2>>;
  using Paper = route<TwoStage<2, 5, 2, scaling::paper>>;
  TestProgram<roots<type_of<decltype(R::gate)>, type_of<decltype(R::chosen)>>> p(at<tokens>(1));
  TestProgram<roots<type_of<decltype(Paper::gate)>>> q(at<tokens>(1));
  p.forward();
  auto const chosen = p.program.get(R::chosen);
  p.backward();
  q.forward();
  q.backward();
  for (Index e = 0; e < 5; ++e) {
    bool const on = chosen(0, 0) == e || chosen(0, 1) == e;
    for (Index c = 0; c < 3; ++c) {
      CHECK((std::abs(p.gradient(R::W_r{})(c, e)) > 1e-5) == on);
      if (!on) CHECK(std::abs(p.gradient(R::W_r{})(c, e)) < 1e-15);
      CHECK(std::abs(q.gradient(Paper::W_r{})(c, e)) > 1e-5);
    }
  }
}
TEST_CASE("two stages: with one routed head per token only the loss teaches the router") {
  using R = route<TwoStage<2, 4, 1>>;
  TestProgram<roots<type_of<decltype(R::gate)>, nth<0, R::losses>>> p(at<tokens>(7));
  p.forward();
  p.backward({0});
  for (double const g : p.gradients(R::W_r{})) CHECK(std::abs(g) < 1e-15);
  CHECK(std::abs(p.gradients(R::W_h{})[0]) > 1e-5);
  CHECK(std::abs(p.gradients(R::W_s{})[0]) > 1e-5);
  p.zero_gradients();
  p.backward({1});
  CHECK(std::abs(p.gradients(R::W_r{})[0]) > 1e-5);
}
TEST_CASE("two stages: the mean weight of a token's active heads is one where the groups weigh alike") {
  using R = route<TwoStage<2, 4, 3>>;
  TestProgram<roots<type_of<decltype(R::gate)>>, inference> p(at<tokens>(7));
  p.values(R::W_h{}).assign(6, 0.0);
  auto const gate = p.forward();
  for (Index t = 0; t < 7; ++t) {
    double sum = 0;
    for (Index k = 0; k < 5; ++k) sum += gate(t, k);
    CHECK(close(sum, 5));
  }
}
TEST_CASE("two stages: losses, their gradients, and what they are at balance") {
  using R = TwoStage<1, 5, dynamic, loss::head_balance_unscaled, loss::head_balance>;
  using r = route<R>;
  using unscaled_loss = nth<0, r::losses>;
  using scaled_loss = nth<1, r::losses>;
  CHECK(gradcheck(scaled_loss{}, at<tokens>(7), at<R::routed_top_k>(2)).ok());
  for (Index const k : {1, 3, 5}) {
    TestProgram<roots<scaled_loss, unscaled_loss>> p(at<tokens>(7), at<R::routed_top_k>(k));
    p.values(r::W_r{}).assign(15, 0.0);
    CHECK(close(p.forward()(0, 0), static_cast<double>(k)));
    CHECK(close(p.program.get(unscaled_loss{})(0, 0), static_cast<double>(k) / 5));
  }
}

}  // namespace two_stage_cases_test
