// SPDX-License-Identifier: MIT
// The router of deep products, by clusters of blocks.
// expect: route_tensor HMMA LDSM LDGSTS
// expect: route_tensor<bfloat16,64, REDUX=8
// expect: route_tensor<bfloat16,128, REDUX=8
// budget: 14.40 1.03 7.09 route_tensor<bfloat16, 16, 4>
// budget: 9.90 0.78 4.83 route_tensor<bfloat16, 32, 4>
// budget: 6.90 0.65 3.71 route_tensor<bfloat16, 64, 4>
// budget: 4.70 0.58 3.14 route_tensor<bfloat16, 128, 4>
#include "gate.cuh"
#include "headmix/backend/cuda/kernel/routing/route.hpp"

template <int columns>
using router =
    headmix::cuda_kernels::route_tensor<headmix::bfloat16, columns, headmix::cuda_kernels::tuning::sm90a::route.blocks>;
HEADMIX_GATE(router<16>)
HEADMIX_GATE(router<32>)
HEADMIX_GATE(router<64>)
HEADMIX_GATE(router<128>)
