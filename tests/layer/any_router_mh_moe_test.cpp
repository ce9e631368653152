// SPDX-License-Identifier: MIT
// Every router with MH-MoE.

#include "any_router.hpp"

namespace any_router_mh_moe_test {

using namespace headmix;
using namespace headmix::test;

namespace {
template <class R>
using layer = MhMoe<6, 2, R, FeedForward<5>>;
}  // namespace

TEST_CASE("any router: mh-moe, softmax") { check_gradient(layer<PlainRouter>::y); }
TEST_CASE("any router: mh-moe, noisy and sampled") { check_gradient(layer<NoisyRouter>::y); }
TEST_CASE("any router: mh-moe, two stages") { check_gradient(layer<TwoStageRouter>::y); }
TEST_CASE("any router: mh-moe, one of the user's own") { check_gradient(layer<OwnRouter>::y); }

}  // namespace any_router_mh_moe_test
