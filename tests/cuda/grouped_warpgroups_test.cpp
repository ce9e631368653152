// SPDX-License-Identifier: MIT
// The grouped products of the Cuda backend with warpgroup MMAs, emulated.

#include "cuda/grouped_test.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/conformance/experts.hpp"
#include "headmix/testing/conformance/joined.hpp"
#include "headmix/testing/emulated_sm90.hpp"

using namespace headmix;

TEST_CASE("cuda, emulated: grouped_gemm by warpgroups [slow]") { testing::test_deep_grouped_gemm<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_gemm by warpgroups, rows that stay [slow]") {
  testing::test_wide_grouped_gemm<EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: grouped_outer by warpgroups [slow]") { testing::test_deep_grouped_outer<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_sum by warpgroups [slow]") { testing::test_long_grouped_sum<EmulatedSm90a>(); }
TEST_CASE("cuda, emulated: grouped_outer of small matrices, by warps where they are too small") {
  testing::test_aligned_grouped_outer<EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: grouped_gemm that warpgroups leave to warps") {
  testing::test_aligned_grouped_gemm<EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: sums of two products with experts by warpgroups, and those that they leave to others") {
  testing::test_grouped_sum_pair<EmulatedSm90a>();
}
TEST_CASE("cuda, emulated: hidden layers of experts by warpgroups, and those that they leave to others") {
  static_assert(FusedExperts<Cuda<bfloat16, EmulatedSm90a>>);
  auto const result =
      testing::conformance_of<EmulatedSm90a>([](auto& b) { detail::conformance::check_hidden_layers(b); });
  CHECK(result.checks == 6 * 2 * (5 + 2));
  CHECK_MESSAGE(result.ok(), result.text());
}
