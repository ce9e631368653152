// SPDX-License-Identifier: MIT
// Attention of the Cuda backend, on a GPU. Not in double, which would double the compile time and passes in emulation.

#include "cuda/attention_test.hpp"
#include "headmix/backend/cuda/sm80.cuh"

using namespace headmix;

TEST_CASE("cuda: attention of any sizes") { testing::test_plain_attention<float, Sm80>(); }
TEST_CASE("cuda: attention with strides, dropout, gates and null operands") {
  testing::test_plain_attention_variants<float, Sm80>();
}
TEST_CASE("cuda: attention over chosen heads") { testing::test_plain_chosen_heads<float, Sm80>(); }
TEST_CASE("cuda: attention with a bias") { testing::test_attention_bias<float, Sm80>(); }
TEST_CASE("cuda: attention over chosen heads on tensor cores, 64 columns") {
  testing::test_tensor_chosen_heads<64, Sm80>();
}
TEST_CASE("cuda: attention over chosen heads on tensor cores, 128 columns") {
  testing::test_tensor_chosen_heads<128, Sm80>();
}
TEST_CASE("cuda: attention on tensor cores, 64 columns a head") { testing::test_tensor_attention<64, Sm80>(); }
TEST_CASE("cuda: attention on tensor cores, 128 columns a head") { testing::test_tensor_attention<128, Sm80>(); }
TEST_CASE("cuda: score maps") { testing::test_plain_score_maps<float, Sm80>(); }
TEST_CASE("cuda: score maps on tensor cores, 64 columns a head") { testing::test_tensor_score_maps<64, Sm80>(); }
TEST_CASE("cuda: score maps on tensor cores, 128 columns a head") { testing::test_tensor_score_maps<128, Sm80>(); }
TEST_CASE("cuda: attention in bfloat16 without tensor cores") { testing::test_tensor_attention_otherwise<Sm80>(); }
