// SPDX-License-Identifier: MIT
// A pass on a GPU, for tests of the linking of differently compiled units; never run.

#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/sm80.cuh"

void UNIT(headmix::view<float> y, headmix::view<float const> x);
void UNIT(headmix::view<float> y, headmix::view<float const> x) {
  headmix::Cuda<float, headmix::Sm80> backend;
  backend.softmax(y, x);
}
