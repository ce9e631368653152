// SPDX-License-Identifier: MIT
// MAE on the Cuda backend, emulated on the CPU.

#include "headmix/backend/cuda/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/mae_test.hpp"
