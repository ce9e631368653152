// SPDX-License-Identifier: MIT
// The products with one weight per expert.
// expect: grouped_gemm_tensor HMMA LDSM LDGSTS
// expect: grouped_outer_tensor HMMA LDSM LDGSTS
// budget: 3.26 0.39 2.37 grouped_gemm_tensor<bfloat16, 64,
// budget: 2.76 0.26 1.60 grouped_gemm_tensor<bfloat16, 128,
// budget: 4.32 0.26 1.60 grouped_outer_tensor<bfloat16, 128, 128>
// budget: 8.89 0.39 2.42 grouped_outer_tensor<bfloat16, 128, 64>
// budget: 8.89 0.39 2.42 grouped_outer_tensor<bfloat16, 64, 128>
// budget: 2.25 0.26 1.32 grouped_gemm_resident<bfloat16, false>
// budget: 2.37 0.26 1.32 grouped_gemm_resident<bfloat16, true>
#include "gate.cuh"
#include "headmix/backend/cuda/dispatch/expert_sums.hpp"
#include "headmix/backend/cuda/dispatch/experts.hpp"

using headmix::bfloat16, headmix::view, headmix::Int;

template <class T>
void gate(gate_queue queue, view<T> y, view<T const> x, view<Int const> index) {
  headmix::cuda_kernels::grouped_gemm<gate_queue, T>(queue, y, x, x, index, index, 1, {});
  headmix::cuda_kernels::grouped_outer<gate_queue, T>(queue, y, x, x, index, index, 1, 1, false, {});
  headmix::cuda_kernels::grouped_sum<gate_queue, T>(queue, y, x, x, index, index, 1, false, {});
}
template void gate<float>(gate_queue, view<float>, view<float const>, view<Int const>);
template void gate<bfloat16>(gate_queue, view<bfloat16>, view<bfloat16 const>, view<Int const>);
