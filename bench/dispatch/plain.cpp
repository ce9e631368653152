// SPDX-License-Identifier: MIT
// A unit compiled for every x86-64 CPU, with headmix::compiled.
#include "pass.hpp"

std::unique_ptr<bench::pass> bench::compiled_pass(std::string_view layer, headmix::thread_pool& pool,
                                                  headmix::Index tokens) {
  return make_pass<headmix::Cpu<float, headmix::thread_pool>>(layer, pool, tokens);
}
