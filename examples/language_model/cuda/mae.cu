// SPDX-License-Identifier: MIT
#include "../mae.hpp"
#include "headmix/headmix.cuh"

template std::unique_ptr<lm::Sublayer<float>> lm::make_mae(Options const&, Index,
                                                           headmix::Cuda<float, headmix::Sm80> const&);
