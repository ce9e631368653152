// SPDX-License-Identifier: MIT
// Quantisation and capacity on the Cuda backend, emulated on the CPU.

#include "headmix/backend/cuda/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/quantize_test.hpp"
