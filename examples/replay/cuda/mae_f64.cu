// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../mae.hpp"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_mae<double, replay::on_cuda>(Case&, Result&);
