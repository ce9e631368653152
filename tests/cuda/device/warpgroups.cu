// SPDX-License-Identifier: MIT
// Kernels with Hopper's own instructions on a GPU that has them: their layouts, and attention. bench/gpu.sh runs them
// apart from the other tests: a barrier that is waited for in vain never ends.

#include "cuda/attention_test.hpp"
#include "cuda/ring_product.hpp"
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

TEST_CASE("warpgroups: products through a ring") {
  if (there_is_none()) return;
  for (int tiles = 1; tiles < 8; ++tiles) {
    CHECK(testing::error_of_ring_product<Hopper>(tiles) < testing::ring_tolerance);
  }
}
TEST_CASE("warpgroups: attention, 64 columns a head") {
  if (there_is_none()) return;
  testing::test_tensor_attention<64, Hopper>();
  testing::test_tensor_chosen_heads<64, Hopper>();
  testing::test_ring_attention<64, Hopper>();
}
