#pragma once
// SPDX-License-Identifier: MIT
// A reference to an executor, tasks with a worker number, and scratch per worker, cut from one span.

#include <algorithm>
#include <atomic>
#include <span>
#include <type_traits>

#include "headmix/backend/cpu/simd/isa.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/core/arena.hpp"
#include "headmix/core/config.hpp"

namespace headmix::cpu_kernels {

/// A reference to any executor, so that kernels are compiled once. A task costs a call through a pointer.
class executor_ref {
 public:
  template <Executor E>
  requires(!std::is_same_v<E, executor_ref>) executor_ref(E& executor)  // NOLINT: kernels take any executor
      : executor_(&executor), concurrency_(executor.concurrency()), parallel_for_(&run<E>) {}

  [[nodiscard]] Index concurrency() const { return concurrency_; }
  template <class F>
  void parallel_for(Index n, F const& f) const {
    parallel_for_(executor_, n, task{&f, [](void const* object, Index i) { (*static_cast<F const*>(object))(i); }});
  }

 private:
  /// A caller's function, by reference.
  struct task {
    void const* object;
    void (*call)(void const*, Index);
    void operator()(Index i) const { call(object, i); }
  };
  template <class E>
  static void run(void* executor, Index n, task t) {
    static_cast<E*>(executor)->parallel_for(n, t);
  }

  void* executor_;
  Index concurrency_;
  void (*parallel_for_)(void*, Index, task);
};

/// A mask as an operand of a kernel.
template <AttentionMask M>
struct mask {};

}  // namespace headmix::cpu_kernels

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Bytes. Scratch begins on a cache line, so that two workers never write to the same line.
inline constexpr Index scratch_alignment = static_cast<Index>(alignment);

/// f(task, worker) for every task in [0, tasks). Workers are in [0, executor.concurrency()), and tasks that run at the
/// same time have different ones, so scratch may be indexed by worker; results must not depend on it. A worker gets its
/// tasks in ascending order.
template <class F>
void for_each_task(executor_ref executor, Index tasks, F f) {
  Index const workers = (std::min)(executor.concurrency(), tasks);
  if (workers <= 1) {
    for (Index task = 0; task < tasks; ++task) f(task, Index{0});
    return;
  }
  std::atomic<Index> next{0};
  executor.parallel_for(workers, [&next, &f, tasks](Index worker) {
    for (Index task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) f(task, worker);
  });
}

/// Bytes of n elements of T in a scratch span, rounded up to whole cache lines. A kernel's scratch is a `checked` sum
/// of these, so later sizes cannot overflow.
template <class T>
[[nodiscard]] constexpr Index scratch_bytes(Index n) {
  return static_cast<Index>(aligned(checked_bytes(n, sizeof(T))));
}
/// The first term of a kernel's scratch: the bytes to align the span.
inline constexpr checked scratch_begins = scratch_alignment;

/// Cuts a scratch span into aligned arrays.
class scratch_cutter {
 public:
  explicit scratch_cutter(std::byte* begin) : next_(begin) {}
  /// Starts at the first aligned byte of the span, which has scratch_alignment bytes more than the arrays.
  explicit scratch_cutter(std::span<std::byte> scratch) : next_(scratch.data()) {
    auto const misplaced = static_cast<Index>(reinterpret_cast<std::uintptr_t>(next_) % scratch_alignment);
    if (misplaced != 0) next_ += scratch_alignment - misplaced;
  }
  /// The next n numbers, scratch_bytes<T>(n) bytes, unchecked.
  template <class T>
  [[nodiscard]] T* take(Index n) {
    T* const result = reinterpret_cast<T*>(next_);
    next_ += (static_cast<std::size_t>(n) * sizeof(T) + alignment - 1) / alignment * alignment;
    return result;
  }
  [[nodiscard]] std::byte* position() const { return next_; }

 private:
  std::byte* next_;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
