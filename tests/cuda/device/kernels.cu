// SPDX-License-Identifier: MIT
// The kernels of the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/kernels_test.hpp"
