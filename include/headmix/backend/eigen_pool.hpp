#pragma once
// SPDX-License-Identifier: MIT
// An executor on the caller's thread pool of Eigen's interface. The calling thread runs tasks, too; a call allocates
// nothing. Tasks must not throw: kernels report errors before they start tasks.

#include <algorithm>
#include <atomic>
#include <memory>
#include <type_traits>
#include <unsupported/Eigen/CXX11/ThreadPool>

#include "headmix/backend/cpu/simd/eigen.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/backend/threads.hpp"
#include "headmix/core/config.hpp"

namespace headmix {

/// Runs the tasks of a parallel_for on the threads of a pool and on the calling thread, which never waits for a busy
/// thread of the pool. A parallel_for runs serially while another one runs on this executor (from one of its tasks, or
/// from another thread), and in a child of fork(), which has no other threads. A task must not call fork(), unless the
/// child calls exec().
class eigen_pool {
 public:
  /// Keeps a reference to the pool; may be destroyed before or after the pool.
  explicit eigen_pool(Eigen::ThreadPoolInterface& pool) : pool_(&pool), crew_(new crew) {}
  ~eigen_pool() { crew_->leave(); }
  eigen_pool(eigen_pool const&) = delete;
  eigen_pool& operator=(eigen_pool const&) = delete;

  [[nodiscard]] Index concurrency() const { return threads_; }

  template <class F>
  void parallel_for(Index n, F&& f) {
    if (n <= 1 || threads_ == 1 || process_ != detail::process_id() || busy_.test_and_set(std::memory_order_acquire)) {
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

  /// The state shared by the executor and its helpers, tasks of the pool that may run late. The last one to leave
  /// deletes it.
  struct crew {
    std::atomic<job*> current{nullptr};
    std::atomic<Index> asked{0}, helping{0}, members{1};

    void help() {
      asked.fetch_sub(1);
      helping.fetch_add(1);
      if (job* const work = current.load()) work->work();
      helping.fetch_sub(1);
      helping.notify_all();
      leave();
    }
    void leave() {
      if (members.fetch_sub(1) == 1) delete this;
    }
  };

  void run(job& work) {
    crew& c = *crew_;
    c.current.store(&work);
    // A helper of an earlier call that has not started yet serves this call, so the queues stay short.
    Index const wanted = (std::min)(threads_, work.tasks) - 1;
    while (c.asked.load() < wanted) {
      c.asked.fetch_add(1);
      c.members.fetch_add(1);
      pool_->Schedule([&c] { c.help(); });  // one pointer: std::function does not allocate
    }
    work.work();
    // No helper gets the job from here on; those that have it are counted in `helping`.
    c.current.store(nullptr);
    for (Index helping; (helping = c.helping.load()) != 0;) c.helping.wait(helping);
  }

  Eigen::ThreadPoolInterface* pool_;
  Index threads_ = Index{pool_->NumThreads()} + 1;
  crew* crew_;
  long process_ = detail::process_id();
  std::atomic_flag busy_;
};

static_assert(Executor<eigen_pool>, "headmix: eigen_pool is no Executor");

}  // namespace headmix
