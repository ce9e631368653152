// SPDX-License-Identifier: MIT
// The gradients of MH-MoE by differences, for every parameter and the input.

#include "mh_moe.hpp"

namespace mh_moe_gradient_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("mh-moe: gradients with everything between the input and the output") {
  using R = SoftmaxTopK<4, 2, gating::renormalized>;
  check_gradient(MhMoe<6, 3, R, FeedForward<5>, head_bias, merge_bias, subtoken_residual,
                       shared_expert<FeedForward<3, activation::gelu>>>::y);
}
TEST_CASE("mh-moe: gradients without a head layer, all experts chosen") {
  check_gradient(MhMoe<6, 2, raw_router<3, 3>, FeedForward<5, activation::gelu>, no_head, merge_bias>::y);
}
TEST_CASE("mh-moe: gradients without a merge layer, one of ReLU experts chosen") {
  check_gradient(MhMoe<6, 3, raw_router<4, 1>, FeedForward<7, activation::relu>, no_merge, head_bias>::y);
}
TEST_CASE("mh-moe: gradients of the only expert") { check_gradient(MhMoe<4, 2, raw_router<1, 1>, FeedForward<3>>::y); }

}  // namespace mh_moe_gradient_test
