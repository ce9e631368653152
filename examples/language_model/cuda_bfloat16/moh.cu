// SPDX-License-Identifier: MIT
#include "../attention.hpp"
#include "headmix/headmix.cuh"

template std::unique_ptr<lm::Sublayer<headmix::bfloat16>> lm::make_moh(
    Options const&, Index, headmix::Cuda<headmix::bfloat16, headmix::Sm80> const&);
