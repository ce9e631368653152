// SPDX-License-Identifier: MIT
// Attention of the Cuda backend, emulated.

#include "cuda/attention_test.hpp"

#include "headmix/testing/emulated.hpp"

using namespace headmix;

TEST_CASE("cuda: tiles of attention") { testing::test_attention_tiles(); }
// In float, kernels_test.hpp tries them.
TEST_CASE("cuda, emulated: attention of any sizes") { testing::test_plain_attention<double, Emulated>(); }
TEST_CASE("cuda, emulated: attention with strides, dropout, gates and null operands") {
  testing::test_plain_attention_variants<double, Emulated>();
}
TEST_CASE("cuda, emulated: attention on tensor cores, 64 columns a head") {
  testing::test_tensor_attention<64, Emulated>();
}
TEST_CASE("cuda, emulated: attention on tensor cores, 128 columns a head [slow]") {
  testing::test_tensor_attention<128, Emulated>();
}
TEST_CASE("cuda, emulated: attention in bfloat16 without tensor cores") {
  testing::test_tensor_attention_otherwise<Emulated>();
}
