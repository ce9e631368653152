// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "train.hpp"
#include "training.hpp"

int lm::train_moh(Options const& options, Text const& text) {
  headmix::thread_pool threads(options.threads);
  return train_mixture_of_heads(options, text, headmix::Cpu<float, headmix::thread_pool>(threads));
}
