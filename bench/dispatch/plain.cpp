// SPDX-License-Identifier: MIT
// The unit that is compiled for every x86-64 CPU.
#include "headmix/backend/dispatched_cpu.hpp"
#include "pass.hpp"

std::unique_ptr<bench::pass> bench::dispatched_pass(std::string_view layer, headmix::thread_pool& pool,
                                                    headmix::Index tokens) {
  return make_pass<headmix::DispatchedCpu<float, headmix::thread_pool>>(layer, pool, tokens);
}
