// SPDX-License-Identifier: MIT
// The rest of warpgroups.cu, for another core to compile.

#include "cuda/attention_test.hpp"
#include "headmix/backend/cuda/sm80.cuh"

using namespace headmix;

namespace {

using Hopper = gpu::sm90a<gpu::this_build, true>;

bool there_is_none() {
  bool const none = !Hopper::queue().warpgroups();
  if (none) MESSAGE("skipped: the GPU, or the code for it, is not that of sm_90a");
  return none;
}

}  // namespace

TEST_CASE("warpgroups: attention, 128 columns a head") {
  if (there_is_none()) return;
  testing::test_tensor_attention<128, Hopper>();
  testing::test_tensor_chosen_heads<128, Hopper>();
  testing::test_ring_attention<128, Hopper>();
}
