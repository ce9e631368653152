// SPDX-License-Identifier: MIT
#include "../train.hpp"

#include "../training.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"

int lm::train_emulated(Options const& options, Text const& text) {
  if (options.scalar != Scalar::float32)
    throw UsageError("--scalar: expected float with --backend emulated, found bfloat16");
  using Backend = headmix::Cuda<float, headmix::Emulated>;
  return train(options, text, Backend(), {nullptr, &make_moa<Backend>, &make_moh<Backend>, &make_mae<Backend>});
}
