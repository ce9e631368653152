// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../moa.hpp"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_moa<double, replay::on_cuda>(Case&, Result&);
