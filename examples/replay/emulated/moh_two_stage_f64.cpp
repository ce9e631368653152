// SPDX-License-Identifier: MIT
#include "../moh.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"

struct replay::on_emulated {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Emulated>;
};
template void replay::replay_two_stage<double, replay::on_emulated>(MohCase<double>&, Result&);
