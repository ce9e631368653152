// SPDX-License-Identifier: MIT
// The fused router of the Cuda backend on an emulated Hopper device, where deep products have clusters.

#include "headmix/testing/emulated_sm90.hpp"

using test_device = headmix::EmulatedSm90a;

#define HEADMIX_TEST_DEVICE "cuda, Hopper"
#include "cuda/route_test.hpp"
