// SPDX-License-Identifier: MIT
// Results in memory of the caller on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm90a;

#include "cuda/results_test.hpp"
