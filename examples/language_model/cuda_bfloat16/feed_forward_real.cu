// SPDX-License-Identifier: MIT
#include "../feed_forward.hpp"
#include "headmix/headmix.cuh"

template std::unique_ptr<lm::Sublayer<headmix::bfloat16>> lm::make_feed_forward<lm::Weights::real>(
    Options const&, Index, headmix::Cuda<headmix::bfloat16, headmix::Sm80> const&);
