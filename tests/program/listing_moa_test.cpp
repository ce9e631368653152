// SPDX-License-Identifier: MIT
// Listings of attention with chosen experts, and of the dense baseline.

#include "headmix/headmix.hpp"
#include "listings.hpp"

namespace listing_moa_test {
namespace {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("listing: Moa") { check_listing(listing_of<Moa<16, 4, SoftmaxTopK<4, 2>, causal>, Cpu<float>>(), "moa"); }
TEST_CASE("listing: MultiHead") {
  check_listing(listing_of<MultiHead<16, 4, 4, causal, rope<>>, Cpu<float>>(), "multi_head");
}

}  // namespace
}  // namespace listing_moa_test
