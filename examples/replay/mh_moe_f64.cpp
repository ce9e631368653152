// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "mh_moe.hpp"

struct replay::on_cpu {
  template <class T>
  using backend = headmix::Cpu<T>;
};
template void replay::replay_mh_moe<double, replay::on_cpu>(Case&, Result&);
