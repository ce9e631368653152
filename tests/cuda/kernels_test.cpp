// SPDX-License-Identifier: MIT
// The kernels of the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/kernels_test.hpp"
