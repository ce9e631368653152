// SPDX-License-Identifier: MIT
// Attention of the Cuda backend, emulated.

#include "cuda/attention_test.hpp"

#include "headmix/backend/cuda/emulated.hpp"

using namespace headmix;

TEST_CASE("cuda: tiles of attention") { testing::test_attention_tiles(); }
TEST_CASE_TEMPLATE("cuda, emulated: attention of any sizes", T, float, double) {
  testing::test_plain_attention<T, Emulated>();
}
TEST_CASE_TEMPLATE("cuda, emulated: attention with strides, dropout, gates and null operands", T, float, double) {
  testing::test_plain_attention_variants<T, Emulated>();
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
