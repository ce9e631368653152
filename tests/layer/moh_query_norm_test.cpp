// SPDX-License-Identifier: MIT
// MoH with QueryNorm: its straight-through gradients against their definition.

#include "moh.hpp"

namespace moh_query_norm_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// Values and gradients of a layer and of its other form agree.
template <class L, Expr Z>
void check_form(Z) {
  each_batch([](gradcheck_options const& o, Index rows) {
    static_cast<void>(check_twins(
        L::y, Z{}, o, [](auto&) {}, at<tokens>(rows)));
  });
}

}  // namespace

TEST_CASE("moh by queries: all heads have the gradient of m = p + detach(m - p)") {
  using R = QueryNorm<2, 4, 2>;
  using L = Moh<5, 4, R, causal, kv_heads<3>, query_bias, key_bias, rope<>>;
  constexpr auto p = L::r::p;
  check_form<L>(composed<L>(ones_and<R::shared_heads>(p + detach(one_hot(L::r::chosen) - p))));
}
TEST_CASE("moh by queries: only active heads have it where the estimator says so") {
  using R = QueryNorm<1, 3, 2, estimator::active>;
  using L = Moh<5, 3, R, checkered, output_bias>;
  constexpr auto p = L::r::p;
  constexpr auto m = one_hot(L::r::chosen);
  check_form<L>(composed<L>(ones_and<R::shared_heads>(m * (number<1>{} + p - detach(p)))));
}

}  // namespace moh_query_norm_test
