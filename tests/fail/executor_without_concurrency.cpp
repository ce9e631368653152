// expect: Executor
// SPDX-License-Identifier: MIT
#include "headmix/backend/cpu/parallel.hpp"

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
void run(one_after_the_other e) {
  cpu::for_each_task(e, 3, [](Index, Index) {});
}
