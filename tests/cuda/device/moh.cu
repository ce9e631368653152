// SPDX-License-Identifier: MIT
// MoH on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/moh_test.hpp"
