// SPDX-License-Identifier: MIT
// Whole programs on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/programs_test.hpp"
