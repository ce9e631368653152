// SPDX-License-Identifier: MIT
#include "../attention.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_moa(Options const&, Index,
                                                           headmix::Cpu<float, headmix::thread_pool> const&);
