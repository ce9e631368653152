// SPDX-License-Identifier: MIT
// Routers and experts of the library satisfy their concepts. Here and not in their headers, since every unit would
// instantiate the checks.
#include <doctest/doctest.h>

#include <headmix/headmix.hpp>

namespace concepts_test {

using namespace headmix;

TEST_CASE("routers of the library are RouterPolicies") {
  CHECK(RouterPolicy<SoftmaxTopK<8, 2>>);
  CHECK(RouterPolicy<SoftmaxTopK<dynamic, dynamic>>);
  CHECK(RouterPolicy<NoisyTopK<8, 2, sampled<1>, loss::cv_squared>>);
  CHECK(RouterPolicy<LossFreeTopK<8, 2>>);
  CHECK(RouterPolicy<LossFreeTopK<dynamic, dynamic>>);
  CHECK(RouterPolicy<TwoStage<2, 6, 2>>);
  CHECK(RouterPolicy<TwoStage<0, 4, 1>>);
  CHECK(RouterPolicy<TwoStage<1, 4, 1, scaling::paper>>);
  CHECK(RouterPolicy<TwoStage<4, 0, 0>>);  // no routed heads
  CHECK(RouterPolicy<TwoStage<dynamic, dynamic, dynamic>>);
  CHECK(RouterPolicy<QueryNorm<2, 6, 2>>);
  CHECK(RouterPolicy<QueryNorm<0, 3, 1, estimator::active>>);
  CHECK(RouterPolicy<QueryNorm<dynamic, dynamic, dynamic>>);
  CHECK(!RouterPolicy<FeedForward<8>>);
}

TEST_CASE("feed-forward experts are ExpertPolicies") {
  CHECK(ExpertPolicy<FeedForward<8>>);
  CHECK(ExpertPolicy<FeedForward<dynamic, activation::relu, weights::ternary, feed_forward_bias>>);
  CHECK(!ExpertPolicy<SoftmaxTopK<8, 2>>);
}

}  // namespace concepts_test
