// SPDX-License-Identifier: MIT
#include "../train.hpp"
#include "../training.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"

int lm::train_moh_emulated(Options const& options, Text const& text) {
  return train_mixture_of_heads(options, text, headmix::Cuda<float, headmix::Emulated>());
}
