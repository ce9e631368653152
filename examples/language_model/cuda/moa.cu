// SPDX-License-Identifier: MIT
#include "../attention.hpp"
#include "headmix/headmix.cuh"

template std::unique_ptr<lm::Sublayer<float>> lm::make_moa(Options const&, Index,
                                                           headmix::Cuda<float, headmix::Sm80> const&);
