#pragma once
// SPDX-License-Identifier: MIT

#include "../case.hpp"
#include "headmix/headmix.cuh"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
