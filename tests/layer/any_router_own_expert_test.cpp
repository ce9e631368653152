// SPDX-License-Identifier: MIT
// Every router with MH-MoE of a user's experts.

#include "any_router.hpp"

namespace any_router_own_expert_test {

using namespace headmix;
using namespace headmix::test;

namespace {
template <class R>
using layer = MhMoe<6, 2, R, Affine, capacity<1>>;
}  // namespace

TEST_CASE("any router: mh-moe of own experts, softmax") { check_gradient(layer<PlainRouter>::y); }
TEST_CASE("any router: mh-moe of own experts, noisy and sampled") { check_gradient(layer<NoisyRouter>::y); }
TEST_CASE("any router: mh-moe of own experts, two stages") { check_gradient(layer<TwoStageRouter>::y); }
TEST_CASE("any router: mh-moe of own experts, one of the user's own") { check_gradient(layer<OwnRouter>::y); }

}  // namespace any_router_own_expert_test
