#pragma once
// SPDX-License-Identifier: MIT
// Who runs the tasks of a kernel. A kernel cuts its work into tasks by shape alone, so its result does not depend on
// the executor; an executor decides only where the tasks run.

#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// Runs f(0), ..., f(n - 1), in any order and possibly at the same time, and returns when all have ended.
/// `concurrency()` is the number of tasks it runs at the same time, at most: at least 1, and always the same. Calls of
/// parallel_for may come from several threads at once only where the executor says so.
template <class E>
concept Executor = requires(E& e, Index n, void (*f)(Index)) {
  e.parallel_for(n, f);
  { e.concurrency() } -> std::convertible_to<Index>;
};

/// One task after the other, on the calling thread.
struct serial {
  [[nodiscard]] static constexpr Index concurrency() { return 1; }
  template <class F>
  static constexpr void parallel_for(Index n, F&& f) {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

static_assert(Executor<serial>, "headmix: serial is no Executor");

}  // namespace headmix
