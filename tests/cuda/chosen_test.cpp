// SPDX-License-Identifier: MIT
// Attention of the Cuda backend with chosen heads, and with a bias, emulated.

#include "cuda/attention_test.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

// In float, kernels_test.hpp tries them.
TEST_CASE("cuda, emulated: attention over chosen heads") { testing::test_plain_chosen_heads<double, Emulated>(); }
TEST_CASE("cuda, emulated: attention with a bias") { testing::test_attention_bias<double, Emulated>(); }
TEST_CASE("cuda, emulated: attention over chosen heads on tensor cores, 64 columns") {
  testing::test_tensor_chosen_heads<64, Emulated>();
}
TEST_CASE("cuda, emulated: attention over chosen heads on tensor cores, 128 columns [slow]") {
  testing::test_tensor_chosen_heads<128, Emulated>();
}
