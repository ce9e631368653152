// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../train.hpp"
#include "../training.hpp"

int lm::train_moh_cuda(Options const& options, Text const& text) {
  return train_mixture_of_heads(options, text, headmix::Cuda<float, headmix::Sm80>());
}
