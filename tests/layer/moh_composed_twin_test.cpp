// SPDX-License-Identifier: MIT
// MoH against "compute all heads, multiply by the weights", forward and backward, and its gradients by differences.

#include "moh.hpp"

namespace moh_composed_twin_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moh: some heads with every bias, rotary embedding and shared key/value heads are all heads times weights") {
  check_layer<
      Moh<5, 4, TwoStage<2, 4, 2>, causal, kv_heads<3>, query_bias, key_bias, value_bias, output_bias, rope<>>>();
}
TEST_CASE("moh: one shared head, one of three routed ones by the paper's scaling, a user's mask") {
  check_layer<Moh<4, 3, TwoStage<1, 3, 1, scaling::paper>, checkered, kv_heads<1>>>();
}

TEST_CASE("moh: products of all heads and attention of the chosen ones") {
  check_layer<Moh<5, 4, TwoStage<2, 4, 2>, causal, kv_heads<3>, query_bias, output_bias, rope<>, dense_projections>>();
}
TEST_CASE("moh: products of all heads, which are chosen by their queries") {
  using L = Moh<4, 3, QueryNorm<1, 3, 1, estimator::active>, checkered, kv_heads<1>, dense_projections>;
  each_batch([](gradcheck_options const& o, Index rows) {
    // Not checked by differences: the straight-through gradient is no derivative, as a weight is 1 for any probability.
    check_twins(
        L::y, twin<L>, o, [](auto&) {}, at<tokens>(rows));
  });
}

}  // namespace moh_composed_twin_test
