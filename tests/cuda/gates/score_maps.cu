// SPDX-License-Identifier: MIT
// Attention with a soft cap with a learned bound and ALiBi, and its gradients.
// expect: attention_tensor HMMA LDSM LDGSTS
// expect: attention_query_gradient_tensor HMMA LDSM LDGSTS
// expect: attention_key_gradient_tensor HMMA LDSM LDGSTS
// expect: attention_operand_sums_tensor HMMA LDSM LDGSTS
// large: ,128,2,64,2> beside ,128,1,64,2>
// large: ,128,4,64> beside ,128,2,32>
// budget: 16.53 0.35 1.67 attention_tensor<
// budget: 20.32 0.39 2.96 , 64, 2, 64>
// budget: 20.32 0.39 2.96 , 128, 4, 64>
// budget: 12.63 0.52 2.96 , 128, 2, 32>
// budget: 23.31 0.43 2.01 , 64, 2, 32, 1>
// budget: 23.31 0.43 2.01 , 128, 2, 64, 2>
// budget: 15.44 0.69 3.20 , 128, 1, 64, 2>
// budget: 7.18 0.78 3.84 attention_operand_sums_tensor<
#include "gate.cuh"
#include "headmix/backend/cuda/dispatch/attention.hpp"
#include "headmix/backend/cuda/dispatch/attention_gradient.hpp"
#include "headmix/layer/scores.hpp"

using headmix::bfloat16, headmix::attention_forward, headmix::attention_backward;

struct cap : headmix::param<headmix::size<1>> {};
struct learned_cap : headmix::score_map {
  static constexpr auto f(auto s) { return cap{} * tanh(s / cap{}); }
};
template <class... M>
using map_of = headmix::detail::lowered_scores<decltype(headmix::detail::map_score<headmix::size<8>, M...>(
    headmix::detail::score_before{}))>::map;
using capped = map_of<headmix::soft_cap<30>>;
using learned = map_of<headmix::alibi, learned_cap>;

void gate(gate_queue queue, attention_forward<bfloat16, capped> const& forward,
          attention_backward<bfloat16, capped> const& backward, attention_backward<bfloat16, learned> const& backward_2,
          headmix::operand_gradients<float, 2> const& d) {
  headmix::cuda_kernels::attention<headmix::causal>(queue, forward, {});
  headmix::cuda_kernels::attention_gradient<headmix::causal>(queue, backward, {});
  headmix::cuda_kernels::attention_gradient<headmix::causal>(queue, backward_2, {});
  headmix::cuda_kernels::attention_operand_gradient<headmix::causal>(queue, d, backward_2, {});
}
