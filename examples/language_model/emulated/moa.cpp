// SPDX-License-Identifier: MIT
#include "../attention.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_moa(Options const&, Index,
                                                           headmix::Cuda<float, headmix::Emulated> const&);
