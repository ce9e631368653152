// SPDX-License-Identifier: MIT
// The products with one weight per expert.
// expect: grouped_gemm_tensor HMMA LDSM LDGSTS
// expect: grouped_outer_tensor HMMA LDSM LDGSTS
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/grouped_gemm.hpp"
#include "headmix/backend/cuda/kernel/grouped_outer.hpp"
#include "headmix/backend/cuda/kernel/grouped_sum.hpp"

using headmix::bfloat16, headmix::view, headmix::Int;

template <class T>
void gate(gate_queue queue, view<T> y, view<T const> x, view<Int const> index) {
  headmix::cuda::grouped_gemm<gate_queue, T>(queue, y, x, x, index, index, 1, {});
  headmix::cuda::grouped_outer<gate_queue, T>(queue, y, x, x, index, index, 1, 1, false, {});
  headmix::cuda::grouped_sum<gate_queue, T>(queue, y, x, x, index, index, 1, false, {});
}
template void gate<float>(gate_queue, view<float>, view<float const>, view<Int const>);
template void gate<bfloat16>(gate_queue, view<bfloat16>, view<bfloat16 const>, view<Int const>);
