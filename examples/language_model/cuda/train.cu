// SPDX-License-Identifier: MIT
#include "../train.hpp"
#include "../training.hpp"
#include "headmix/headmix.cuh"

int lm::train_cuda(Options const& options, Text const& text) {
  using Backend = headmix::Cuda<float, headmix::Sm80>;
  return train(options, text, Backend(),
               {&make_dense<Backend>, &make_moa<Backend>, &make_moh<Backend>, &make_mae<Backend>});
}
