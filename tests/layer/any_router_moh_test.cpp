// SPDX-License-Identifier: MIT
// Every router with MoH. QueryNorm, with straight-through gradients, is in moh_query_norm_test.cpp.

#include "any_router.hpp"

namespace any_router_moh_test {

using namespace headmix;
using namespace headmix::test;

namespace {
template <class R>
using layer = Moh<4, 3, R, causal>;
}  // namespace

TEST_CASE("any router: moh, softmax") { check_gradient(layer<PlainRouter>::y); }
TEST_CASE("any router: moh, noisy and sampled") { check_gradient(layer<NoisyRouter>::y); }
TEST_CASE("any router: moh, two stages") { check_gradient(layer<TwoStageRouter>::y); }
TEST_CASE("any router: moh, one of the user's own") { check_gradient(layer<OwnRouter>::y); }

}  // namespace any_router_moh_test
