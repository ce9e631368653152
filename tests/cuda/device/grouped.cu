// SPDX-License-Identifier: MIT
// The grouped products of the Cuda backend, on a GPU. Not in double, like attention.cu.

#include "cuda/grouped_test.hpp"
#include "headmix/backend/cuda/sm80.cuh"

using namespace headmix;

TEST_CASE_TEMPLATE("cuda: grouped products of any sizes and strides", T, float, bfloat16) {
  testing::test_plain_grouped_products<T, Sm80>();
}
TEST_CASE("cuda: grouped_gemm on tensor cores") { testing::test_aligned_grouped_gemm<Sm80>(); }
TEST_CASE("cuda: grouped_gemm on tensor cores, deep") { testing::test_deep_grouped_gemm<Sm80>(); }
TEST_CASE("cuda: grouped_gemm of rows that stay in shared memory") { testing::test_resident_rows<Sm80>(); }
TEST_CASE("cuda: grouped_sum on tensor cores") { testing::test_aligned_grouped_sum<Sm80>(); }
TEST_CASE("cuda: grouped products as one dense product") {
  testing::test_dense_grouped_sum<Sm80>();
  testing::test_dense_grouped_outer<Sm80>();
}
TEST_CASE("cuda: grouped products with blocks of one matrix") { testing::test_grouped_blocks<Sm80>(); }
TEST_CASE("cuda: grouped_outer on tensor cores") {
  testing::test_aligned_grouped_outer<Sm80>();
  testing::test_deep_grouped_outer<Sm80>();
}
