// SPDX-License-Identifier: MIT
#include "../moh.hpp"
#include "headmix/headmix.cuh"

struct replay::on_cuda {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Sm80>;
};
template void replay::replay_query_norm<double, replay::on_cuda>(MohCase<double>&, Result&);
