// SPDX-License-Identifier: MIT
// Listings of feed-forward experts.

#include "headmix/headmix.hpp"
#include "listings.hpp"

namespace listing_experts_test {
namespace {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("listing: MhMoe") {
  check_listing(listing_of<MhMoe<16, 2, SoftmaxTopK<4, 2>, FeedForward<12>>, Cpu<float>>(), "mh_moe");
}
TEST_CASE("listing: Smoe") {
  check_listing(listing_of<Smoe<16, SoftmaxTopK<4, 2>, FeedForward<12>>, Cpu<float>>(), "smoe");
}

}  // namespace
}  // namespace listing_experts_test
