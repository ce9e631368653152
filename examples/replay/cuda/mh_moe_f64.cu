// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../mh_moe.hpp"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_mh_moe<double, replay::on_cuda>(Case&, Result&);
