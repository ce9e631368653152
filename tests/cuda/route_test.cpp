// SPDX-License-Identifier: MIT
// The fused router of the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#define HEADMIX_TEST_DEVICE "cuda"
#include "cuda/route_test.hpp"
