// SPDX-License-Identifier: MIT
// Layers with and without fused steps, emulated on the CPU.

#include "headmix/backend/cuda/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/fused_test.hpp"
