#pragma once
// SPDX-License-Identifier: MIT
// Threads that the library makes itself: all of them or an error, and none is waited for in a child of fork(), which
// has only the thread that called it.

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#include <unistd.h>
#endif

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"

namespace headmix {

namespace detail {

/// The largest number of threads of an executor, the calling one included. Eigen's thread pool can count to four times
/// as many.
inline constexpr Index max_threads = 4096;

/// Fails unless an executor can have n threads.
inline Index checked_threads(char const* who, Index n) {
  if (n < 1 || n > max_threads) fail(who, ": expected 1 to ", max_threads, " threads, found ", n);
  return n;
}

/// The number of this process, without a system call: another one in a child of fork(). Where there is no fork(): 0.
inline long process_id() {
#if defined(__unix__) || defined(__APPLE__)
  static std::atomic<long> id{getpid()};
  static int const kept = pthread_atfork(nullptr, nullptr, [] { id.store(getpid(), std::memory_order_relaxed); });
  static_cast<void>(kept);
  return id.load(std::memory_order_relaxed);
#else
  return 0;
#endif
}

/// A thread that is there, and waits until it is given a task.
class waiting_thread {
 public:
  waiting_thread()
      : thread_([this] {
          begun_.wait(false);
          if (task_) task_();
        }) {}
  waiting_thread(waiting_thread const&) = delete;
  waiting_thread& operator=(waiting_thread const&) = delete;
  /// Returns when the task has ended, or at once if there was none.
  ~waiting_thread() {
    if (!begun_.load()) begin({});
    thread_.join();
  }
  /// Once.
  void begin(std::function<void()> task) {
    task_ = std::move(task);
    begun_.store(true);
    begun_.notify_one();
  }

 private:
  std::atomic<bool> begun_{false};
  std::function<void()> task_;
  std::thread thread_;
};

/// n threads. An Error if the system refuses one of them; none is left then.
/// @param asked  for the message: the number of threads that `who` was asked for, the caller's own among them
inline std::vector<std::unique_ptr<waiting_thread>> waiting_threads([[maybe_unused]] char const* who, Index n,
                                                                    [[maybe_unused]] Index asked) {
  std::vector<std::unique_ptr<waiting_thread>> threads;
  auto const make = [&] {
    threads.reserve(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) threads.push_back(std::make_unique<waiting_thread>());
  };
#ifdef HEADMIX_NO_EXCEPTIONS
  make();
#else
  try {
    make();
  } catch (std::exception const& e) {  // of the system, or of memory
    fail(who, ": expected ", asked, " threads, found ", asked - n + static_cast<Index>(threads.size()),
         ": the system refuses the next one (", e.what(), ")");
  }
#endif
  return threads;
}

}  // namespace detail

}  // namespace headmix
