// SPDX-License-Identifier: MIT
#include "../train.hpp"
#include "../training.hpp"
#include "headmix/headmix.cuh"

int lm::train_cuda(Options const& options, Text const& text) {
  return with_scalar(options, [&]<class T>(std::type_identity<T>) {
    using Backend = headmix::Cuda<T, headmix::Sm80>;
    return train(options, text, Backend(),
                 {&make_dense<Backend>, &make_moa<Backend>, &make_moh<Backend>, &make_mae<Backend>});
  });
}
