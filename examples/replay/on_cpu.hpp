#pragma once
// SPDX-License-Identifier: MIT

#include "case.hpp"
#include "headmix/backend/cpu.hpp"

struct replay::on_cpu {
  template <class T>
  using backend = headmix::Cpu<T>;
};
