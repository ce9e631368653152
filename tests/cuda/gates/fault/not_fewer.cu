// SPDX-License-Identifier: MIT
// A kernel with more instructions than its peer.
// fewer: many than few
__global__ void few(float* x) { x[threadIdx.x] = 1; }
__global__ void many(float* x) { x[threadIdx.x] = x[threadIdx.x + 1] * x[threadIdx.x + 2] + 3; }
