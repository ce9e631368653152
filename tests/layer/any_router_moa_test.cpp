// SPDX-License-Identifier: MIT
// Every router with MoA.

#include "any_router.hpp"

namespace any_router_moa_test {

using namespace headmix;
using namespace headmix::test;

namespace {
template <class R>
using layer = Moa<6, 4, R, causal>;
}  // namespace

TEST_CASE("any router: moa, softmax") { check_gradient(layer<PlainRouter>::y); }
TEST_CASE("any router: moa, noisy and sampled") { check_gradient(layer<NoisyRouter>::y); }
TEST_CASE("any router: moa, two stages") { check_gradient(layer<TwoStageRouter>::y); }
TEST_CASE("any router: moa, one of the user's own") { check_gradient(layer<OwnRouter>::y); }

}  // namespace any_router_moa_test
