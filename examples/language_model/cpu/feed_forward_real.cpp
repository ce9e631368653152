// SPDX-License-Identifier: MIT
#include "../feed_forward.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_feed_forward<lm::Weights::real>(
    Options const&, Index, headmix::Cpu<float, headmix::thread_pool> const&);
