#pragma once
// SPDX-License-Identifier: MIT
// The backend of the program.

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/thread_pool.hpp"

namespace llama {

using Compute = headmix::Cpu<headmix::bfloat16, headmix::thread_pool>;

}  // namespace llama
