#pragma once
// SPDX-License-Identifier: MIT

#include "../case.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"

struct replay::on_emulated {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Emulated>;
};
