// SPDX-License-Identifier: MIT
// A pass on a GPU, for tests of what the linker makes of units that are compiled differently; never run.

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/sm80.cuh"

void UNIT(headmix::view<float> y, headmix::view<float const> x);
void UNIT(headmix::view<float> y, headmix::view<float const> x) {
  headmix::Cuda<float, headmix::Sm80> backend;
  backend.softmax(y, x);
}
