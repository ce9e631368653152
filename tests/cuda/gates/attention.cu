// SPDX-License-Identifier: MIT
// Attention and its gradient, with their launch tiles.
// expect: attention_tensor HMMA LDSM LDGSTS
// expect: attention_query_gradient_tensor HMMA LDSM LDGSTS
// expect: attention_key_gradient_tensor HMMA LDSM LDGSTS
// large: attention_query_gradient_tensor<causal,no_score_map,128,2,64,2> beside <causal,no_score_map,128,1,64,2>
// large: attention_key_gradient_tensor<causal,no_score_map,128,4,64> beside <causal,no_score_map,128,2,32>
// budget: 6.76 0.33 1.60 attention_tensor<full, no_score_map, 64,
// budget: 6.76 0.33 1.60 attention_tensor<causal, no_score_map, 64,
// budget: 5.39 0.35 1.67 attention_tensor<full, no_score_map, 128,
// budget: 5.39 0.35 1.67 attention_tensor<causal, no_score_map, 128,
// budget: 5.86 0.39 2.81 attention_key_gradient_tensor<causal, no_score_map, 64,
// budget: 3.87 0.39 2.18 attention_key_gradient_tensor<causal, no_score_map, 128, 4,
// budget: 5.35 0.52 2.84 attention_key_gradient_tensor<causal, no_score_map, 128, 2,
// budget: 4.43 0.35 1.57 attention_query_gradient_tensor<causal, no_score_map, 64,
// budget: 4.02 0.43 1.91 attention_query_gradient_tensor<causal, no_score_map, 128, 2,
// budget: 5.75 0.69 3.12 attention_query_gradient_tensor<causal, no_score_map, 128, 1,
#include "gate.cuh"
#include "headmix/backend/cuda/dispatch/attention.hpp"
#include "headmix/backend/cuda/dispatch/attention_gradient.hpp"

using headmix::bfloat16, headmix::attention_forward, headmix::attention_backward;

void gate(gate_queue queue, attention_forward<bfloat16> const& forward, attention_backward<bfloat16> const& backward,
          attention_forward<float> const& wide_forward, attention_backward<float> const& wide_backward,
          headmix::view<bfloat16> d_bias, headmix::view<float> wide_d_bias) {
  headmix::cuda_kernels::attention<headmix::full>(queue, forward, {});
  headmix::cuda_kernels::attention<headmix::causal>(queue, forward, {});
  headmix::cuda_kernels::attention_gradient<headmix::causal>(queue, backward, {});
  headmix::cuda_kernels::attention<headmix::causal>(queue, wide_forward, {});
  headmix::cuda_kernels::attention_gradient<headmix::causal>(queue, wide_backward, {});
  headmix::cuda_kernels::attention_bias_gradient<headmix::causal>(queue, d_bias, backward, {});
  headmix::cuda_kernels::attention_bias_gradient<headmix::causal>(queue, wide_d_bias, wide_backward, {});
}
