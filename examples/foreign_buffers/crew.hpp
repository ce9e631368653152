#pragma once
// SPDX-License-Identifier: MIT
// The engine's own threads. An executor of headmix is anything with `concurrency()` and `parallel_for(n, f)`.

#include <condition_variable>
#include <functional>
#include <headmix/backend/executor.hpp>
#include <mutex>
#include <thread>
#include <vector>

/// A fixed number of threads, the caller of parallel_for included. One parallel_for at a time; a task must not throw.
class Crew {
 public:
  explicit Crew(headmix::Index threads) {
    while (concurrency() < threads) helpers_.emplace_back([this] { help(); });
  }
  ~Crew() {
    {
      std::lock_guard const lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& helper : helpers_) helper.join();
  }
  Crew(Crew const&) = delete;
  Crew& operator=(Crew const&) = delete;

  [[nodiscard]] headmix::Index concurrency() const { return static_cast<headmix::Index>(helpers_.size()) + 1; }

  /// Runs f(0), ..., f(n - 1) and returns when all have ended.
  template <class F>
  void parallel_for(headmix::Index n, F&& f) {
    std::unique_lock lock(mutex_);
    task_ = std::ref(f);  // a reference, since std::function would allocate for a large f
    next_ = 0;
    tasks_ = unfinished_ = n;
    wake_.notify_all();
    work(lock);
    done_.wait(lock, [this] { return unfinished_ == 0; });
  }

 private:
  /// Takes tasks until all have been started.
  void work(std::unique_lock<std::mutex>& lock) {
    while (next_ < tasks_) {
      headmix::Index const i = next_++;
      lock.unlock();
      task_(i);
      lock.lock();
      if (--unfinished_ == 0) done_.notify_one();
    }
  }
  void help() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      work(lock);
      wake_.wait(lock, [this] { return stop_ || next_ < tasks_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void(headmix::Index)> task_;
  headmix::Index next_ = 0, tasks_ = 0, unfinished_ = 0;
  bool stop_ = false;
  std::vector<std::thread> helpers_;
};

static_assert(headmix::Executor<Crew>);
