// SPDX-License-Identifier: MIT
// The fused router of the Cuda backend with clusters, on a Hopper GPU; on others those of route.cu run.

#include "cuda/device/hopper.hpp"

using test_device = Hopper;

#define HEADMIX_TEST_DEVICE "cuda, Hopper"
#include "cuda/route_test.hpp"
