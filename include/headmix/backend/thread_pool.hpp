#pragma once
// SPDX-License-Identifier: MIT
// An executor on Eigen's work-stealing thread pool. The caller works too, a call allocates nothing, and a task must not
// throw: kernels report their errors before they start tasks.

#include <algorithm>
#include <atomic>
#include <memory>
#include <type_traits>
#include <unsupported/Eigen/CXX11/ThreadPool>

#include "headmix/backend/cpu/eigen.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/core/config.hpp"

namespace headmix {

/// Runs the tasks of one parallel_for on `threads` threads, the calling one included. A parallel_for that starts while
/// another one is under way on this pool (from one of its tasks, or from another thread) runs serially.
class thread_pool {
 public:
  /// One thread means: no pool, everything on the caller.
  explicit thread_pool(Index threads) : threads_((std::max)(threads, Index{1})) {
    if (threads_ > 1) pool_ = std::make_unique<Eigen::ThreadPool>(static_cast<int>(threads_ - 1));
  }
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;

  [[nodiscard]] Index concurrency() const { return threads_; }

  template <class F>
  void parallel_for(Index n, F&& f) {
    if (n <= 1 || threads_ == 1 || busy_.test_and_set(std::memory_order_acquire)) {
      for (Index i = 0; i < n; ++i) f(i);
      return;
    }
    using function = std::remove_reference_t<F>;
    job work{[](void* p, Index i) { (*static_cast<function*>(p))(i); },
             const_cast<void*>(static_cast<void const*>(std::addressof(f))), n};
    run(work);
    busy_.clear(std::memory_order_release);
  }

 private:
  struct job {
    void (*call)(void*, Index);
    void* function;
    Index tasks;
    std::atomic<Index> next{0};

    void work() noexcept {
      for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) call(function, i);
    }
  };

  void run(job& work) {
    current_.store(&work);
    // A helper that an earlier call asked for and that has not woken up yet serves this call: the queues stay short.
    Index const wanted = (std::min)(threads_, work.tasks) - 1;
    while (asked_.load() < wanted) {
      asked_.fetch_add(1);
      pool_->Schedule([this] { help(); });  // one pointer: fits into std::function without an allocation
    }
    work.work();
    // From here on no helper finds the job; those that had found it are counted in helping_.
    current_.store(nullptr);
    for (Index helping; (helping = helping_.load()) != 0;) helping_.wait(helping);
  }

  void help() {
    asked_.fetch_sub(1);
    helping_.fetch_add(1);
    if (job* const work = current_.load()) work->work();
    helping_.fetch_sub(1);
    helping_.notify_all();
  }

  Index threads_;
  std::atomic_flag busy_;
  std::atomic<job*> current_{nullptr};
  std::atomic<Index> asked_{0}, helping_{0};
  std::unique_ptr<Eigen::ThreadPool> pool_;  // last: its destructor joins threads that use the members above
};

static_assert(Executor<thread_pool>);

}  // namespace headmix
