// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "mae.hpp"

struct replay::on_cpu {
  template <class T>
  using backend = headmix::Cpu<T>;
};
template void replay::replay_mae<double, replay::on_cpu>(Case&, Result&);
