// SPDX-License-Identifier: MIT
#include "../feed_forward.hpp"
#include "headmix/backend/cuda.hpp"
#include "headmix/testing/emulated.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_feed_forward<lm::Weights::real>(
    Options const&, Index, headmix::Cuda<float, headmix::Emulated> const&);
