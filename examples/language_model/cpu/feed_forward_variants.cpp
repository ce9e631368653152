// SPDX-License-Identifier: MIT
#include "../feed_forward_variants.hpp"

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

template std::unique_ptr<lm::Sublayer<float>> lm::make_feed_forward_variant(
    Options const&, Index, headmix::Cpu<float, headmix::thread_pool> const&);
