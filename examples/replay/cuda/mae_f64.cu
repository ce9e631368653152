// SPDX-License-Identifier: MIT
#include "../mae.hpp"
#include "headmix/headmix.cuh"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_mae<double, replay::on_cuda>(Case&, Result&);
