#pragma once
// SPDX-License-Identifier: MIT
// An executor with its own threads, on Eigen's work-stealing thread pool.

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "headmix/backend/eigen_pool.hpp"
#include "headmix/backend/threads.hpp"

namespace headmix {

/// Runs the tasks of a parallel_for on `threads` threads, the calling one included, like eigen_pool. Several threads
/// may call it at the same time: one of them uses the pool's threads, the others run their tasks serially. In a child
/// of fork() all tasks run on the calling thread.
class thread_pool {
 public:
  /// 1 to 4096 threads; 1 is the calling thread alone. Other numbers, and threads that the system refuses, are an
  /// Error.
  explicit thread_pool(Index threads) : pool_(made(threads)) {}
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;
  /// In a child of fork() the pool's memory is not freed: its destructor would wait for threads that are not in this
  /// process.
  ~thread_pool() {
    if (process_ != detail::process_id()) (void)pool_.release();
  }

  [[nodiscard]] Index concurrency() const { return executor_.concurrency(); }

  template <class F>
  void parallel_for(Index n, F&& f) {
    executor_.parallel_for(n, std::forward<F>(f));
  }

 private:
  /// Gives threads that exist to Eigen's pool, whose constructor waits forever if the system refuses it a thread.
  struct environment : Eigen::StlThreadEnvironment {
    using EnvThread = detail::waiting_thread;
    std::vector<std::unique_ptr<EnvThread>>* threads;

    explicit environment(std::vector<std::unique_ptr<EnvThread>>& all) : threads(&all) {}
    EnvThread* CreateThread(std::function<void()> task) {
      EnvThread* const thread = threads->back().release();
      threads->pop_back();
      thread->begin(std::move(task));
      return thread;
    }
  };
  using pool = Eigen::ThreadPoolTempl<environment>;

  static std::unique_ptr<pool> made(Index threads) {
    Index const others = detail::checked_threads("thread_pool", threads) - 1;
    auto all = detail::waiting_threads("thread_pool", others, threads);
    // Eigen's pool does not check its allocations: 41 KiB per thread, and two numbers per pair of threads. So as much
    // is allocated first; the volatile pointer keeps the compiler from removing the allocation.
    auto const n = static_cast<std::size_t>(others), bytes = n * (65536 + 4 * n);
    void* volatile memory = ::operator new(bytes, std::nothrow);
    if (memory == nullptr) fail("thread_pool: there is not enough memory for ", threads, " threads");
    ::operator delete(memory);
    return std::make_unique<pool>(static_cast<int>(others), environment(all));
  }

  long process_ = detail::process_id();
  std::unique_ptr<pool> pool_;
  eigen_pool executor_{*pool_};
};

static_assert(Executor<thread_pool>, "headmix: thread_pool is no Executor");

}  // namespace headmix
