// SPDX-License-Identifier: MIT
// Attention and its gradient, with the tiles that they are launched with.
// expect: attention_tensor HMMA LDSM LDGSTS
// expect: attention_query_gradient_tensor HMMA LDSM LDGSTS
// expect: attention_key_gradient_tensor HMMA LDSM LDGSTS
// budget: 6.76 0.33 1.60 attention_tensor<full, no_score_map, 64,
// budget: 6.76 0.33 1.60 attention_tensor<causal, no_score_map, 64,
// budget: 5.39 0.35 1.67 attention_tensor<full, no_score_map, 128,
// budget: 5.39 0.35 1.67 attention_tensor<causal, no_score_map, 128,
// budget: 5.86 0.39 2.81 attention_key_gradient_tensor<causal, no_score_map, 64,
// budget: 3.87 0.39 2.18 attention_key_gradient_tensor<causal, no_score_map, 128,
// budget: 4.43 0.35 1.57 attention_query_gradient_tensor<causal, no_score_map, 64,
// budget: 4.02 0.43 1.91 attention_query_gradient_tensor<causal, no_score_map, 128,
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/attention.hpp"
#include "headmix/backend/cuda/kernel/attention_backward.hpp"
#include "headmix/backend/cuda/kernel/attention_bias.hpp"

using headmix::bfloat16, headmix::attention_forward, headmix::attention_backward;

void gate(gate_queue queue, attention_forward<bfloat16> const& forward, attention_backward<bfloat16> const& backward,
          attention_forward<float> const& wide_forward, attention_backward<float> const& wide_backward,
          headmix::view<bfloat16> d_bias, headmix::view<float> wide_d_bias) {
  headmix::gpu::attention<headmix::full>(queue, forward, {});
  headmix::gpu::attention<headmix::causal>(queue, forward, {});
  headmix::gpu::attention_gradient<headmix::causal>(queue, backward, {});
  headmix::gpu::attention<headmix::causal>(queue, wide_forward, {});
  headmix::gpu::attention_gradient<headmix::causal>(queue, wide_backward, {});
  headmix::gpu::attention_bias_gradient<headmix::causal>(queue, d_bias, backward, {});
  headmix::gpu::attention_bias_gradient<headmix::causal>(queue, wide_d_bias, wide_backward, {});
}
