// SPDX-License-Identifier: MIT
// Score maps of the Cuda backend, emulated.

#include "cuda/attention_test.hpp"
#include "headmix/testing/emulated.hpp"

using namespace headmix;

TEST_CASE_TEMPLATE("cuda, emulated: score maps", T, float, double, bfloat16) {
  testing::test_plain_score_maps<T, Emulated>();
}
TEST_CASE("cuda, emulated: score maps on tensor cores, 64 columns a head") {
  testing::test_tensor_score_maps<64, Emulated>();
}
TEST_CASE("cuda, emulated: score maps on tensor cores, 128 columns a head [slow]") {
  testing::test_tensor_score_maps<128, Emulated>();
}
