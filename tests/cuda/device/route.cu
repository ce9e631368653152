// SPDX-License-Identifier: MIT
// The fused router of the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#define HEADMIX_TEST_DEVICE "cuda"
#include "cuda/route_test.hpp"
