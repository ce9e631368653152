// SPDX-License-Identifier: MIT
// Attention and its gradient, with the tiles that they are launched with.
// expect: attention_tensor HMMA LDSM LDGSTS
// expect: attention_query_gradient_tensor HMMA LDSM LDGSTS
// expect: attention_key_gradient_tensor HMMA LDSM LDGSTS
// budget: 7.16 0.33 1.57 attention_tensor<full, no_score_map, 64,
// budget: 7.16 0.33 1.57 attention_tensor<causal, no_score_map, 64,
// budget: 6.50 0.39 1.83 attention_tensor<full, no_score_map, 128,
// budget: 6.50 0.39 1.83 attention_tensor<causal, no_score_map, 128,
// budget: 5.47 0.58 3.20 attention_key_gradient_tensor<causal, no_score_map, 64,
// budget: 3.30 0.65 2.71 attention_key_gradient_tensor<causal, no_score_map, 128,
// budget: 4.84 0.43 1.93 attention_query_gradient_tensor<causal, no_score_map, 64,
// budget: 5.02 0.61 2.77 attention_query_gradient_tensor<causal, no_score_map, 128,
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/attention.hpp"
#include "headmix/backend/cuda/kernel/attention_backward.hpp"
#include "headmix/backend/cuda/kernel/attention_bias.hpp"

using headmix::bfloat16, headmix::attention_forward, headmix::attention_backward;

void gate(gate_queue queue, attention_forward<bfloat16> const& forward, attention_backward<bfloat16> const& backward,
          attention_forward<float> const& wide_forward, attention_backward<float> const& wide_backward,
          headmix::view<bfloat16> d_bias, headmix::view<float> wide_d_bias) {
  headmix::cuda::attention<headmix::full>(queue, forward, {});
  headmix::cuda::attention<headmix::causal>(queue, forward, {});
  headmix::cuda::attention_gradient<headmix::causal>(queue, backward, {});
  headmix::cuda::attention<headmix::causal>(queue, wide_forward, {});
  headmix::cuda::attention_gradient<headmix::causal>(queue, wide_backward, {});
  headmix::cuda::attention_bias_gradient<headmix::causal>(queue, d_bias, backward, {});
  headmix::cuda::attention_bias_gradient<headmix::causal>(queue, wide_d_bias, wide_backward, {});
}
