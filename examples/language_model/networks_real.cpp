// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"
#include "networks.hpp"

template std::unique_ptr<lm::Network> lm::make_network<lm::Weights::real>(
    Options const&, Index, headmix::Cpu<float, headmix::thread_pool> const&);
