// SPDX-License-Identifier: MIT
// The router: logits, softmax and the best experts in one kernel.
// expect: route_tensor HMMA LDSM LDGSTS
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/route.hpp"

using headmix::bfloat16;

bool gate(gate_queue queue, headmix::route_problem<bfloat16> const& problem) {
  headmix::cuda::softmax_top_k<gate_queue, float>(queue, problem.p, problem.index, problem.z);
  return headmix::cuda::route_on_tensor_cores<gate_queue, bfloat16>(queue, problem, {});
}
