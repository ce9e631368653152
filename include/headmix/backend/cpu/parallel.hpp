#pragma once
// SPDX-License-Identifier: MIT
// Tasks with a worker number, for kernels that keep scratch per worker, and the cutting of that scratch from one span.

#include <algorithm>
#include <atomic>
#include <span>

#include "headmix/backend/cpu/isa.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/core/arena.hpp"
#include "headmix/core/config.hpp"

namespace headmix::cpu::inline HEADMIX_ISA {

/// Scratch begins on a cache line, so that two workers never write to the same one.
inline constexpr Index scratch_alignment = static_cast<Index>(alignment);

/// Calls f(task, worker) for every task in [0, tasks). Workers are numbered from 0 to e.concurrency() - 1 and two tasks
/// that run at the same time have different ones, so scratch may be indexed by worker. Results must not depend on it.
/// A worker receives its tasks in ascending order.
template <Executor E, class F>
void for_each_task(E& e, Index tasks, F f) {
  Index const workers = (std::min)(static_cast<Index>(e.concurrency()), tasks);
  if (workers <= 1) {
    for (Index task = 0; task < tasks; ++task) f(task, Index{0});
    return;
  }
  std::atomic<Index> next{0};
  e.parallel_for(workers, [&next, &f, tasks](Index worker) {
    for (Index task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) f(task, worker);
  });
}

/// Bytes that `n` elements of T take in a scratch span, rounded up to whole cache lines.
template <class T>
[[nodiscard]] constexpr Index scratch_bytes(Index n) {
  return static_cast<Index>(aligned(static_cast<std::size_t>(n) * sizeof(T)));
}

/// Cuts a scratch span into aligned arrays, one after the other.
class scratch_cutter {
 public:
  explicit scratch_cutter(std::byte* begin) : next_(begin) {}
  /// From the first aligned byte of the span: needs scratch_alignment bytes more than the arrays.
  explicit scratch_cutter(std::span<std::byte> scratch) : next_(scratch.data()) {
    auto const misplaced = static_cast<Index>(reinterpret_cast<std::uintptr_t>(next_) % scratch_alignment);
    if (misplaced != 0) next_ += scratch_alignment - misplaced;
  }
  template <class T>
  [[nodiscard]] T* take(Index n) {
    T* const result = reinterpret_cast<T*>(next_);
    next_ += scratch_bytes<T>(n);
    return result;
  }
  [[nodiscard]] std::byte* position() const { return next_; }

 private:
  std::byte* next_;
};

}  // namespace headmix::cpu::inline HEADMIX_ISA
