// SPDX-License-Identifier: MIT
// MH-MoE on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/mh_moe_test.hpp"
