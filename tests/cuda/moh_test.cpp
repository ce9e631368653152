// SPDX-License-Identifier: MIT
// MoH on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/moh_test.hpp"
