#pragma once
// SPDX-License-Identifier: MIT
// An executor on the threads of OpenMP, for programs compiled with it. Tasks must not throw: kernels report errors
// before they start tasks. Not in the umbrella header.

#ifndef _OPENMP
#error "headmix: backend/open_mp.hpp needs OpenMP: add -fopenmp to the compiler's flags"
#endif

#include <omp.h>

#include "headmix/backend/executor.hpp"
#include "headmix/backend/threads.hpp"
#include "headmix/core/config.hpp"

namespace headmix {

/// Runs the tasks of a parallel_for in a parallel region. Inside another parallel region, of the caller or of a
/// parallel_for, the tasks run serially on the calling thread. Several threads may call it at the same time.
///
/// A child of fork() has none of OpenMP's threads. LLVM's OpenMP makes new threads; GCC's waits for them forever. With
/// GCC's, a parallel_for in the child is an Error if the thread that called fork() had run a parallel_for of an
/// open_mp; parallel regions of the program itself are not detected. Use thread_pool in such a program, or exec() in
/// the child.
class open_mp {
 public:
  /// A constant number of threads, the calling one included. Fewer than 1 and more than 4096 are an Error. OpenMP ends
  /// the process if the system refuses a thread.
  explicit open_mp(Index threads = omp_get_max_threads())
      : threads_(static_cast<int>(detail::checked_threads("open_mp", threads))) {}

  [[nodiscard]] Index concurrency() const { return threads_; }

  template <class F>
  void parallel_for(Index n, F&& f) {
    if (n <= 1 || threads_ == 1 || omp_in_parallel()) {
      for (Index i = 0; i < n; ++i) f(i);
      return;
    }
    check_process();
    // The same number of threads for any n: a runtime may end threads that a smaller team does not use.
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
    for (Index i = 0; i < n; ++i) f(i);
  }

 private:
  /// Fails in a child of fork() whose OpenMP would wait forever.
  static void check_process() {
#ifndef __clang__  // LLVM's OpenMP makes new threads there
    thread_local long team_of = 0;
    long const process = detail::process_id();
    if (team_of != 0 && team_of != process) {
      fail("open_mp: the threads of OpenMP are those of process ", team_of, ", and process ", process,
           " is a child of its fork(); use thread_pool, or exec()");
    }
    team_of = process;
#endif
  }

  int threads_;
};

static_assert(Executor<open_mp>, "headmix: open_mp is no Executor");

}  // namespace headmix
