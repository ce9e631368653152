// SPDX-License-Identifier: MIT
// Listings of layers on a Hopper GPU, where routers, row functions and products are fused and grouped.

#include "headmix/backend/cuda.hpp"
#include "headmix/layer/feed_forward.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/testing/emulated_sm90.hpp"
#include "program/listings.hpp"

using namespace headmix;
using namespace headmix::test;

TEST_CASE("listing: Moa on a GPU") {
  using Layer = Moa<64, 64, SoftmaxTopK<8, 2>, causal>;
  check_listing(listing_of<Layer, Cuda<bfloat16, EmulatedSm90a>>(), "cuda_moa");
}
TEST_CASE("listing: experts on a GPU") {
  using Layer = Smoe<64, SoftmaxTopK<8, 2>, FeedForward<128>>;
  check_listing(listing_of<Layer, Cuda<bfloat16, EmulatedSm90a>>(), "cuda_smoe");
}
