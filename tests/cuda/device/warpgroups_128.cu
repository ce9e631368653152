// SPDX-License-Identifier: MIT
// The rest of warpgroups.cu, in a second unit for another core.

#include "cuda/attention_test.hpp"
#include "cuda/device/hopper.hpp"

using namespace headmix;

TEST_CASE("warpgroups: attention, 128 columns a head") {
  if (there_is_no_hopper()) return;
  testing::test_tensor_attention<128, Hopper>();
  testing::test_tensor_chosen_heads<128, Hopper>();
  testing::test_ring_attention<128, Hopper>();
  testing::test_ring_gradient<128, Hopper>();
  testing::test_tensor_score_maps<128, Hopper>();
}
