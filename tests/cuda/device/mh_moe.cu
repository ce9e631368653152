// SPDX-License-Identifier: MIT
// MH-MoE on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/mh_moe_test.hpp"
