// SPDX-License-Identifier: MIT
// The gradients of MoA.

#include "headmix/layer/moa.hpp"
#include "headmix/router/two_stage.hpp"
#include "published.hpp"

namespace moa_gradient_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moa: gradients, raw gate, causal") {
  using L = Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, causal>;
  check_gradient(L::y);
  CHECK(gradcheck(L::y, ragged_options(), at<tokens>(7)).ok());
}
TEST_CASE("moa: gradients, renormalized gate, every key") {
  using L = Moa<5, 3, SoftmaxTopK<4, 3, gating::renormalized>>;
  check_gradient(L::y);
  CHECK(gradcheck(L::y, ragged_options(), at<tokens>(7)).ok());
}
TEST_CASE("moa: gradients, experts by the two-stage router") {
  check_gradient(Moa<6, 4, TwoStage<1, 3, 2>, causal>::y);
}

}  // namespace moa_gradient_test
