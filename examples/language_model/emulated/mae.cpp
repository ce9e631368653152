// SPDX-License-Identifier: MIT
#include "../mae.hpp"

#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_mae(Options const&, Index,
                                                           headmix::Cuda<float, headmix::Emulated> const&);
