// SPDX-License-Identifier: MIT
// Layers with and without fused steps, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/fused_test.hpp"
