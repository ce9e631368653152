// SPDX-License-Identifier: MIT
// Attention of the Cuda backend with warpgroup MMAs, emulated.

#include "cuda/attention_test.hpp"
#include "headmix/testing/emulated_sm90.hpp"

using namespace headmix;

TEST_CASE("cuda, emulated: attention by warpgroups, 64 columns a head [slow]") {
  testing::test_tensor_attention<64, EmulatedSm90a>();
  testing::test_tensor_chosen_heads<64, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: attention by warpgroups, 128 columns a head [slow]") {
  testing::test_tensor_attention<128, EmulatedSm90a>();
  testing::test_tensor_chosen_heads<128, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: score maps by warpgroups, 64 columns a head") {
  testing::test_tensor_score_maps<64, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: score maps by warpgroups, 128 columns a head [slow]") {
  testing::test_tensor_score_maps<128, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: attention by warpgroups, long rings [slow]") {
  testing::test_ring_attention<64, EmulatedSm90a>();
  testing::test_ring_attention<128, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: gradient of attention by warpgroups, long rings [slow]") {
  testing::test_ring_gradient<64, EmulatedSm90a>();
  testing::test_ring_gradient<128, EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: attention that warpgroups leave to warps") {
  testing::test_tensor_attention_otherwise<EmulatedSm90a>();
}
