// SPDX-License-Identifier: MIT
// Whole layers on a GPU with the default kernels: on Hopper by warpgroups.

#include "headmix/backend/cuda/sm80.cuh"

using test_device = headmix::Sm90a;

#include "cuda/layers_warpgroups_test.hpp"
