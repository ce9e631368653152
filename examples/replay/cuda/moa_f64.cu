// SPDX-License-Identifier: MIT
#include "../moa.hpp"
#include "headmix/headmix.cuh"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_moa<double, replay::on_cuda>(Case&, Result&);
