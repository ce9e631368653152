// SPDX-License-Identifier: MIT
// MAE on the Cuda backend, emulated on the CPU.

#include "headmix/testing/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/mae_test.hpp"
