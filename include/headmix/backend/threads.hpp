#pragma once
// SPDX-License-Identifier: MIT
// Threads of the library: all are created, or none and an Error. A child of fork(), which has no other threads, never
// waits for them.

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

/// The most threads of an executor, the calling one included. Eigen's thread pool has a limit of four times as many.
inline constexpr Index max_threads = 4096;

/// n, or an Error if it is not a number of threads of an executor.
inline Index checked_threads(char const* who, Index n) {
  if (n < 1 || n > max_threads) fail(who, ": expected 1 to ", max_threads, " threads, found ", n);
  return n;
}

/// The process ID, without a system call; a child of fork() has its own. 0 on systems without fork().
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

/// A started thread that waits for its task.
class waiting_thread {
 public:
  waiting_thread()
      : thread_([this] {
          begun_.wait(false);
          if (task_) task_();
        }) {}
  waiting_thread(waiting_thread const&) = delete;
  waiting_thread& operator=(waiting_thread const&) = delete;
  /// Joins the thread.
  ~waiting_thread() {
    if (!begun_.load()) begin({});
    thread_.join();
  }
  /// Starts the task; called once.
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

/// n started threads. An Error, and no thread, if the system refuses one.
/// @param who  the class of the executor, for the message
/// @param asked  the threads of the executor, the calling one included, for the message
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
  } catch (std::exception const& e) {  // std::system_error or std::bad_alloc
    fail(who, ": expected ", asked, " threads, found ", asked - n + static_cast<Index>(threads.size()),
         ": the system refuses the next one (", e.what(), ")");
  }
#endif
  return threads;
}

}  // namespace detail

}  // namespace headmix
