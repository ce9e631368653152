// SPDX-License-Identifier: MIT
// Layers on Hopper, emulated.

#include "headmix/testing/emulated_sm90.hpp"

using test_device = headmix::EmulatedSm90a;

#include "cuda/layers_warpgroups_test.hpp"
