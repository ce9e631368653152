// SPDX-License-Identifier: MIT
#include "../train.hpp"
#include "../training.hpp"
#include "headmix/headmix.cuh"

int lm::train_moh_cuda(Options const& options, Text const& text) {
  return train_mixture_of_heads(options, text, headmix::Cuda<float, headmix::Sm80>());
}
