// SPDX-License-Identifier: MIT
#include "../train.hpp"
#include "../training.hpp"
#include "headmix/headmix.cuh"

int lm::train_moa_cuda(Options const& options, Text const& text) {
  return train<Moa>(options, text, headmix::Cuda<float, headmix::Sm80>());
}
