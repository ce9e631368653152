#pragma once
// SPDX-License-Identifier: MIT
// Executors run the tasks of kernels. A kernel cuts its work into tasks by shape alone, so its result does not depend
// on the executor.

#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// `parallel_for(n, f)` runs f(0), ..., f(n - 1) in any order, possibly at the same time, and returns when all have
/// ended. `concurrency()`, at least 1 and constant, is the most tasks that run at the same time. Several threads may
/// call parallel_for at once only where the executor documents it.
template <class E>
concept Executor = requires(E& e, Index n, void (*f)(Index)) {
  e.parallel_for(n, f);
  { e.concurrency() } -> std::convertible_to<Index>;
};

/// Runs one task after the other on the calling thread.
struct serial {
  [[nodiscard]] static constexpr Index concurrency() { return 1; }
  template <class F>
  static constexpr void parallel_for(Index n, F&& f) {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

static_assert(Executor<serial>, "headmix: serial is no Executor");

}  // namespace headmix
