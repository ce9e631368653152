// SPDX-License-Identifier: MIT
// The router: logits, softmax and top-k experts in one kernel.
// expect: route_tensor HMMA LDSM LDGSTS
// expect: route_tensor<bfloat16,64, REDUX=8
// expect: route_tensor<bfloat16,128, REDUX=8
// budget: 14.40 1.03 7.09 route_tensor<bfloat16, 16, 1>
// budget: 9.90 0.78 4.83 route_tensor<bfloat16, 32, 1>
// budget: 6.90 0.65 3.71 route_tensor<bfloat16, 64, 1>
// budget: 4.70 0.58 3.14 route_tensor<bfloat16, 128, 1>
#include "gate.cuh"
#include "headmix/backend/cuda/dispatch/routing.hpp"

using headmix::bfloat16;

bool gate(gate_queue queue, headmix::route_problem<bfloat16> const& problem) {
  headmix::cuda_kernels::softmax_top_k<gate_queue, float>(queue, problem.p, problem.index, problem.z);
  return headmix::cuda_kernels::route_on_tensor_cores<gate_queue, bfloat16>(queue, problem, {});
}
