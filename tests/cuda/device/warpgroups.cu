// SPDX-License-Identifier: MIT
// Kernels with Hopper's instructions (TMA, wgmma) on a Hopper GPU: layouts, products with experts, and attention.
// bench/gpu.sh runs them separately: a barrier without arrivals never ends.

#include "cuda/attention_test.hpp"
#include "cuda/device/hopper.hpp"
#include "cuda/grouped_test.hpp"
#include "cuda/ring_product.hpp"
#include "headmix/testing/device_conformance.hpp"

using namespace headmix;

TEST_CASE("warpgroups: the device conforms to the archetype") {
  static_assert(WarpgroupDevice<Hopper>);
  if (there_is_no_hopper()) return;
  Hopper::queue queue;
  auto const found = device_conformance<Hopper>(queue);
  CHECK_MESSAGE(found.ok(), found.text());
}
TEST_CASE("warpgroups: products through a ring") {
  if (there_is_no_hopper()) return;
  for (int tiles = 1; tiles < 8; ++tiles) {
    CHECK(testing::error_of_ring_product<Hopper>(tiles) < testing::ring_tolerance);
  }
}
TEST_CASE("warpgroups: grouped_gemm") {
  if (there_is_no_hopper()) return;
  testing::test_deep_grouped_gemm<Hopper>();
  testing::test_wide_grouped_gemm<Hopper>();
}
TEST_CASE("warpgroups: grouped_sum") {
  if (there_is_no_hopper()) return;
  testing::test_long_grouped_sum<Hopper>();
}
TEST_CASE("warpgroups: sums of two products") {
  if (there_is_no_hopper()) return;
  testing::test_grouped_sum_pair<Hopper>();
}
TEST_CASE("warpgroups: grouped_outer") {
  if (there_is_no_hopper()) return;
  testing::test_aligned_grouped_outer<Hopper>();
  testing::test_deep_grouped_outer<Hopper>();
}
TEST_CASE("warpgroups: attention, 64 columns a head") {
  if (there_is_no_hopper()) return;
  testing::test_tensor_attention<64, Hopper>();
  testing::test_tensor_chosen_heads<64, Hopper>();
  testing::test_ring_attention<64, Hopper>();
  testing::test_ring_gradient<64, Hopper>();
  testing::test_tensor_score_maps<64, Hopper>();
}
