// SPDX-License-Identifier: MIT
// The grouped products of the Cuda backend with the products of warpgroups, emulated.

#include "cuda/grouped_test.hpp"
#include "headmix/backend/cuda/emulated_sm90.hpp"

using namespace headmix;

TEST_CASE("cuda, emulated: grouped_gemm by warpgroups [slow]") { testing::test_deep_grouped_gemm<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_outer by warpgroups [slow]") { testing::test_deep_grouped_outer<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: sums over slots on chip [slow]") { testing::test_sums_on_chip<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_sum by warpgroups [slow]") { testing::test_long_grouped_sum<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_outer of small matrices, by warps where they are too small") {
  testing::test_aligned_grouped_outer<EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: grouped_gemm that warpgroups leave to warps") {
  testing::test_aligned_grouped_gemm<EmulatedSm90a>();
}
