// SPDX-License-Identifier: MIT
// Sequences on the Cuda backend, emulated on the CPU.

#include "headmix/backend/cuda/emulated.hpp"

using test_device = headmix::Emulated;

#include "cuda/sequence_test.hpp"
