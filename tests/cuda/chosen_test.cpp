// SPDX-License-Identifier: MIT
// Attention of the Cuda backend where tokens choose heads, and with a bias, emulated.

#include "cuda/attention_test.hpp"
#include "headmix/backend/cuda/emulated.hpp"

using namespace headmix;

TEST_CASE_TEMPLATE("cuda, emulated: attention over chosen heads", T, float, double) {
  testing::test_plain_chosen_heads<T, Emulated>();
}
TEST_CASE_TEMPLATE("cuda, emulated: attention with a bias", T, float, double) {
  testing::test_attention_bias<T, Emulated>();
}
TEST_CASE("cuda, emulated: attention over chosen heads on tensor cores, 64 columns") {
  testing::test_tensor_chosen_heads<64, Emulated>();
}
TEST_CASE("cuda, emulated: attention over chosen heads on tensor cores, 128 columns [slow]") {
  testing::test_tensor_chosen_heads<128, Emulated>();
}
