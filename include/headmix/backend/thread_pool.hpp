#pragma once
// SPDX-License-Identifier: MIT
// An executor with threads of its own: Eigen's work-stealing thread pool, for programs that have no pool yet.

#include <algorithm>
#include <utility>

#include "headmix/backend/eigen_pool.hpp"

namespace headmix {

/// Runs the tasks of one parallel_for on `threads` threads, the calling one included, as eigen_pool does. Several
/// threads may call it at the same time; one of them has the pool's threads, the others run their tasks themselves.
class thread_pool {
 public:
  /// One thread means: everything on the caller.
  explicit thread_pool(Index threads) : pool_(static_cast<int>((std::max)(threads, Index{1}) - 1)) {}

  [[nodiscard]] Index concurrency() const { return executor_.concurrency(); }

  template <class F>
  void parallel_for(Index n, F&& f) {
    executor_.parallel_for(n, std::forward<F>(f));
  }

 private:
  Eigen::ThreadPool pool_;
  eigen_pool executor_{pool_};
};

static_assert(Executor<thread_pool>);

}  // namespace headmix
