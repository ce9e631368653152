// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../train.hpp"
#include "../training.hpp"

int lm::train_moa_cuda(Options const& options, Text const& text) {
  return train<Moa>(options, text, headmix::Cuda<float, headmix::Sm80>());
}
