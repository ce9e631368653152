// SPDX-License-Identifier: MIT
// Results in memory of the caller on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/results_test.hpp"
