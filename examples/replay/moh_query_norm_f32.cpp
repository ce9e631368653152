// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "moh.hpp"

struct replay::on_cpu {
  template <class T>
  using backend = headmix::Cpu<T>;
};
template void replay::replay_query_norm<float, replay::on_cpu>(MohCase<float>&, Result&);
