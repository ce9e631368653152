// SPDX-License-Identifier: MIT
// Whole programs on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/programs_test.hpp"
