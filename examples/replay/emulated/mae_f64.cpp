// SPDX-License-Identifier: MIT
#include "../mae.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"

struct replay::on_emulated {
  template <class T>
  using backend = headmix::Cuda<T, headmix::Emulated>;
};
template void replay::replay_mae<double, replay::on_emulated>(Case&, Result&);
