// SPDX-License-Identifier: MIT
#include "../attention.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

template std::unique_ptr<lm::Sublayer<headmix::bfloat16>> lm::make_moa(
    Options const&, Index, headmix::Cpu<headmix::bfloat16, headmix::thread_pool> const&);
