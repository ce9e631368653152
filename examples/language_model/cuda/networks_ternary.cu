// SPDX-License-Identifier: MIT
#include "../networks.hpp"
#include "headmix/headmix.cuh"

template std::unique_ptr<lm::Network> lm::make_network<lm::Weights::ternary>(
    Options const&, Index, headmix::Cuda<float, headmix::Sm80> const&);
