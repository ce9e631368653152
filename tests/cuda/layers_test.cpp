// SPDX-License-Identifier: MIT
// Whole layers on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/layers_test.hpp"
