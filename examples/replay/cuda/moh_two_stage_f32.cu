// SPDX-License-Identifier: MIT
#include "headmix/headmix.cuh"
#include "../moh.hpp"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_two_stage<float, replay::on_cuda>(MohCase<float>&, Result&);
