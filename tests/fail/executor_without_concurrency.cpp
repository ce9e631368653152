// expect: Executor
// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu.hpp"

using namespace headmix;
struct one_after_the_other {
#ifndef MUST_FAIL
  Index concurrency() const { return 1; }
#endif
  template <class F>
  void parallel_for(Index n, F f) {
    for (Index i = 0; i < n; ++i) f(i);
  }
};
Cpu<float, one_after_the_other> backend;
