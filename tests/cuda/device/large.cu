// SPDX-License-Identifier: MIT
// Sampled rows of attention and grouped products, on a GPU, at the shapes of bench/gpu/kernels.cu (MoA) and heads.cu
// (16 heads, of which a token chooses 8).

#include "cuda/large_test.hpp"
#include "headmix/backend/cuda/sm80.cuh"

using namespace headmix;

TEST_CASE("cuda: sampled rows of grouped products at the shape of MoA") {
  testing::test_large_products<Sm80>({16384, 1024, 128, 8, 32, false});
}
TEST_CASE("cuda: sampled rows of grouped products at the shape of MoH") {
  testing::test_large_products<Sm80>({8192, 1024, 64, 8, 16, true});
}
TEST_CASE_TEMPLATE("cuda: sampled rows of attention over 2048 tokens", Mask, full, causal) {
  SUBCASE("MoA") { testing::test_large_attention<Mask, Sm80>({8, 2048, 8, 1, 1, 128, false}); }
  SUBCASE("16 heads") { testing::test_large_attention<Mask, Sm80>({4, 2048, 1, 16, 16, 64, false}); }
  SUBCASE("8 of 16 heads") { testing::test_large_attention<Mask, Sm80>({4, 2048, 8, 16, 16, 64, true}); }
}
