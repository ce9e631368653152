// SPDX-License-Identifier: MIT
// Listings of feed-forward experts.

#include "listings.hpp"

namespace listing_experts_test {
namespace {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("listing: MhMoe") { check_listing(listing_of<MhMoe<16, 2, SoftmaxTopK<4, 2>, FeedForward<12>>>(), "mh_moe"); }
TEST_CASE("listing: Smoe") { check_listing(listing_of<Smoe<16, SoftmaxTopK<4, 2>, FeedForward<12>>>(), "smoe"); }

}  // namespace
}  // namespace listing_experts_test
