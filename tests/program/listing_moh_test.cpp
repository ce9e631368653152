// SPDX-License-Identifier: MIT
// Listings of attention with heads or experts as mixtures.

#include "headmix/headmix.hpp"
#include "listings.hpp"

namespace listing_moh_test {
namespace {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("listing: Moh") { check_listing(listing_of<Moh<16, 4, TwoStage<1, 3, 2>, causal>, Cpu<float>>(), "moh"); }
TEST_CASE("listing: Mae") { check_listing(listing_of<Mae<16, 4, 4>, Cpu<float>>(), "mae"); }

}  // namespace
}  // namespace listing_moh_test
