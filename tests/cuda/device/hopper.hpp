#pragma once
// SPDX-License-Identifier: MIT
// The device of the tests of warpgroup kernels.

#include <doctest/doctest.h>

#include "headmix/backend/cuda/sm80.cuh"

using Hopper = headmix::cuda_kernels::sm90a<headmix::cuda_kernels::this_build, true>;

inline bool there_is_no_hopper() {
  bool const none = !Hopper::queue().warpgroups();
  if (none) MESSAGE("skipped: the GPU, or the code for it, is not that of sm_90a");
  return none;
}
