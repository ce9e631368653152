#pragma once
// SPDX-License-Identifier: MIT
// An executor with threads of its own: Eigen's work-stealing thread pool, for programs that have no pool yet.

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "headmix/backend/eigen_pool.hpp"
#include "headmix/backend/threads.hpp"

namespace headmix {

/// Runs the tasks of one parallel_for on `threads` threads, the calling one included, as eigen_pool does. Several
/// threads may call it at the same time; one of them has the pool's threads, the others run their tasks themselves. In
/// a child of fork() everything runs on the caller.
class thread_pool {
 public:
  /// One thread means: everything on the caller. Fewer, more than 4096, and more than the system makes are an
  /// Error.
  explicit thread_pool(Index threads) : pool_(made(threads)) {}
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;
  /// In a child of fork() the pool's memory is not freed: its mutexes and condition variables belong to threads that
  /// are not in this process, and to destroy them would wait for those.
  ~thread_pool() {
    if (process_ != detail::process_id()) (void)pool_.release();
  }

  [[nodiscard]] Index concurrency() const { return executor_.concurrency(); }

  template <class F>
  void parallel_for(Index n, F&& f) {
    executor_.parallel_for(n, std::forward<F>(f));
  }

 private:
  /// For Eigen's pool, whose constructor waits for ever when a thread of its own making is refused: these are there.
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
    // Eigen's pool does not look whether it gets the memory it asks for: 41 KiB for each thread, and for each two of
    // them two numbers. So as much is asked for before; a volatile pointer keeps the compiler from leaving that out.
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
