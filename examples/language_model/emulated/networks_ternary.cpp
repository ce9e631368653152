// SPDX-License-Identifier: MIT
#include "../networks.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/backend/cuda/emulated.hpp"

template std::unique_ptr<lm::Network> lm::make_network<lm::Weights::ternary>(
    Options const&, Index, headmix::Cuda<float, headmix::Emulated> const&);
