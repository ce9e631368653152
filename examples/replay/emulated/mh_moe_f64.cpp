// SPDX-License-Identifier: MIT
#include "../mh_moe.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"

struct replay::on_emulated {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Emulated>;
};
template void replay::replay_mh_moe<double, replay::on_emulated>(Case&, Result&);
