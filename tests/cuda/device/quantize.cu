// SPDX-License-Identifier: MIT
// Quantisation and capacity on the Cuda backend, on a GPU.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm80;

#include "cuda/quantize_test.hpp"
