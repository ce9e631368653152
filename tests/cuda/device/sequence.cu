// SPDX-License-Identifier: MIT
// Sequences on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/sequence_test.hpp"
