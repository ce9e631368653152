// SPDX-License-Identifier: MIT
// The router: logits, softmax and the best experts in one kernel.
// expect: route_tensor HMMA LDSM LDGSTS
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/route.hpp"

using headmix::bfloat16, headmix::view, headmix::Int;

bool gate(gate_queue queue, view<float> z, view<float> p, view<Int> index, view<bfloat16 const> x) {
  headmix::cuda::softmax_top_k<gate_queue, float>(queue, p, index, z);
  return headmix::cuda::route_on_tensor_cores<gate_queue, bfloat16>(queue, z, p, index, x, x);
}
