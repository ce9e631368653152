#pragma once
// SPDX-License-Identifier: MIT
// The scheduler of a block's threads: each runs on its own stack until it waits at a barrier or in a warp function, or
// ends.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"
#include "headmix/testing/emulator/fiber.hpp"

namespace headmix::cuda_kernels::emulator {

/// The attributes of a kernel that a launch needs.
struct kernel_attributes {
  std::string_view name;
  int threads = 0;  ///< of all blocks of a cluster, block by block
  bool cooperative = false;
  int shared_bytes = 0;  ///< per block
  std::size_t operand_bytes = 0;
  bool warpgroups = false;
  int cluster = 1;  ///< number of blocks of a cluster
};

/// A function of all lanes of a warp: the last to arrive runs `perform` over the operands of all.
struct warp_function {
  char const* name;
  int size;  // of the exchanged value: lanes must agree
  void (*perform)(std::array<void*, 32> const& lanes);
};

/// The operands of the 128 threads of a warpgroup.
using group_operands = std::array<void*, 128>;

/// The running block, or the blocks of a cluster as one, and errors that name it.
struct running_block {
  kernel_attributes kernel;
  Index number = 0;  ///< of the first block

  [[nodiscard]] int block_threads() const { return kernel.threads / kernel.cluster; }
  /// The rank of a thread's block in the cluster.
  [[nodiscard]] int rank_of(int thread) const { return thread / block_threads(); }
  /// The first byte of the shared memory of the rank-th block; those of a cluster are consecutive here.
  [[nodiscard]] Index shared_begin(int rank) const { return Index{(kernel.shared_bytes + 1023) / 1024 * 1024} * rank; }
  [[nodiscard]] Index shared_end() const { return shared_begin(kernel.cluster - 1) + kernel.shared_bytes; }

  [[nodiscard]] std::string place(int rank = 0) const {
    return message("kernel ", kernel.name, ", block ", number + rank, ": ");
  }
  /// Ends the launch with an error about a thread.
  template <class... Part>
  [[noreturn, gnu::cold, gnu::noinline]] void report(int thread, Part const&... part) const {
    fail(place(rank_of(thread)), "thread ", thread % block_threads(), " ", part...);
  }
  void require_cooperative(int thread, char const* what) const {
    if (!kernel.cooperative) report(thread, "calls ", what, " in a kernel that is not cooperative");
  }
};

class thread_scheduler {
 public:
  static constexpr int max_threads = 1024;

  explicit thread_scheduler(running_block const& block) : block_(block) {
    for (thread_state& t : threads_) t.owner = this;
  }

  /// Calls body(context, t) for each thread t of the block, until all have ended.
  void run(void (*body)(void* context, int thread), void* context) {
    body_ = body;
    context_ = context;
    deadlock_.clear();
    warps_.fill({});
    groups_.fill({});
    at_barrier_ = ended_ = 0;
    first_ready_ = ready_ = 0;
    for (int t = 0; t < block_.kernel.threads; ++t) {
      thread_state& state = threads_[index(t)];
      state.waits_at = nullptr;
      state.ended = false;
      state.stack.prepare(&thread_scheduler::run_thread, &state);
      wake(t);
    }
    next(host_, false);
    if (!deadlock_.empty()) fail(block_.place(), deadlock_);
    rethrow();
  }
  /// A barrier of the block, which all threads must call with the same name: true for the last thread to arrive, which
  /// continues first.
  bool sync(int thread, char const* where) {
    block_.require_cooperative(thread, where);
    if (at_barrier_ > 0 && std::string_view(where) != barrier_) {
      block_.report(thread, "calls ", where, " while thread ", first_at_barrier_, " waits at ", barrier_);
    }
    if (at_barrier_ == 0) {
      barrier_ = where;
      first_at_barrier_ = thread;
    }
    if (++at_barrier_ < block_.kernel.threads) {
      wait(thread, where);
      return false;
    }
    at_barrier_ = 0;
    for (int t = 0; t < block_.kernel.threads; ++t) {
      if (t != thread) wake(t);
    }
    return true;
  }
  /// Returns when the function was performed; true for the lane that performed it, which continues first.
  bool warp_collective(int thread, warp_function const& function, void* operands) {
    block_.require_cooperative(thread, function.name);
    warp& w = warps_[index(thread / 32)];
    if (w.arrived > 0 && !same(function, *w.function)) {
      block_.report(thread, "calls ", text_of(function), " while thread ", w.first, " of its warp waits at ",
                    text_of(*w.function));
    }
    if (w.arrived == 0) {
      w.function = &function;
      w.first = thread;
    }
    w.operands[index(thread % 32)] = operands;
    if (++w.arrived < 32) {
      wait(thread, function.name);
      return false;
    }
    w.arrived = 0;
    function.perform(w.operands);
    for (int t = thread / 32 * 32; t < thread / 32 * 32 + 32; ++t) {
      if (t != thread) wake(t);
    }
    return true;
  }

  [[nodiscard]] bool has_ended(int thread) const { return threads_[index(thread)].ended; }

  /// Waits until another thread wakes it.
  void wait_for_wake(int thread, std::string const& where) { wait(thread, texts_.insert(where).first->c_str()); }
  void wake_up(int thread) { wake(thread); }
  /// Sets callbacks: `stalled` is called when no thread can continue, until one can or it returns false; `explain` adds
  /// to the message of a deadlock. Null: none.
  void watch(void* context, bool (*stalled)(void*), std::string (*explain)(void*)) {
    watcher_ = context;
    stalled_ = stalled;
    explain_ = explain;
  }

  /// Returns when the last of the 128 threads of a warpgroup has performed the function, over the operands of all.
  template <class Perform>
  void warpgroup_collective(int thread, char const* name, void* operands, Perform const& perform) {
    block_.require_cooperative(thread, name);
    group& g = groups_[index(thread / 128)];
    if (g.arrived > 0 && std::string_view(g.name) != name) {
      block_.report(thread, "calls ", name, " while thread ", g.first, " of its warpgroup waits at ", g.name);
    }
    if (block_.kernel.threads < (thread / 128 + 1) * 128) {
      block_.report(thread, "calls ", name, ", but its warpgroup has fewer than 128 threads");
    }
    if (g.arrived == 0) {
      g.name = name;
      g.first = thread;
    }
    g.operands[index(thread % 128)] = operands;
    if (++g.arrived < 128) return wait(thread, name);
    g.arrived = 0;
    perform(g.operands);
    for (int t = thread / 128 * 128; t < thread / 128 * 128 + 128; ++t) {
      if (t != thread) wake(t);
    }
  }

 private:
  struct group {
    int arrived = 0;
    int first = 0;
    char const* name = nullptr;
    group_operands operands{};
  };
  struct thread_state {
    fiber stack;
    thread_scheduler* owner = nullptr;
    char const* waits_at = nullptr;
    bool ended = false;
  };
  struct warp {
    int arrived = 0;
    int first = 0;
    warp_function const* function = nullptr;
    std::array<void*, 32> operands{};
  };

  static constexpr std::size_t index(Index i) { return static_cast<std::size_t>(i); }

  static bool same(warp_function const& f, warp_function const& g) {
    return &f == &g || (f.size == g.size && std::string_view(f.name) == g.name);
  }
  static std::string text_of(warp_function const& function) {
    return function.size == 0 ? std::string(function.name) : message(function.name, " of ", function.size, " bytes");
  }

  static void run_thread(void* argument) {
    auto& state = *static_cast<thread_state*>(argument);
    thread_scheduler& self = *state.owner;
    self.guarded_run(static_cast<int>(&state - self.threads_.data()));
    state.ended = true;
    ++self.ended_;
    self.next(state.stack, true);
  }
#ifdef HEADMIX_NO_EXCEPTIONS
  void guarded_run(int thread) { body_(context_, thread); }
  void rethrow() {}
#else
  /// An error must leave on the host's stack. The other threads are abandoned: their stacks hold device code, without
  /// destructors.
  void guarded_run(int thread) {
    try {
      body_(context_, thread);
      return;
    } catch (...) {
      error_ = std::current_exception();
    }
    fiber::switch_stacks(threads_[index(thread)].stack, host_, true);
  }
  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
#endif

  void wake(int thread) {
    threads_[index(thread)].waits_at = nullptr;
    queue_[index((first_ready_ + ready_++) % max_threads)] = static_cast<std::uint16_t>(thread);
  }
  void wait(int thread, char const* where) {
    threads_[index(thread)].waits_at = where;
    next(threads_[index(thread)].stack, false);
  }
  /// Runs the next ready thread, or the host when all have ended.
  void next(fiber& from, bool last) {
    if (ready_ == 0 && ended_ < block_.kernel.threads && !complete_pending()) {
      return fiber::switch_stacks(from, host_, last);
    }
    if (ready_ == 0) {
      if (ended_ < block_.kernel.threads) deadlock_ = describe_deadlock();
      return fiber::switch_stacks(from, host_, last);
    }
    int const thread = queue_[index(first_ready_)];
    first_ready_ = (first_ready_ + 1) % max_threads;
    --ready_;
    fiber::switch_stacks(from, threads_[index(thread)].stack, last);
  }

  /// Completes asynchronous operations one by one until a thread can continue. False after an error.
  bool complete_pending() {
    if (!stalled_) return true;
#ifndef HEADMIX_NO_EXCEPTIONS
    try {
#endif
      while (ready_ == 0 && stalled_(watcher_)) continue;
#ifndef HEADMIX_NO_EXCEPTIONS
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
#endif
    return true;
  }

  [[nodiscard]] std::string describe_deadlock() const {
    std::vector<char const*> places;  // nullptr: ended
    for (int t = 0; t < block_.kernel.threads; ++t) {
      char const* const where = threads_[index(t)].ended ? nullptr : threads_[index(t)].waits_at;
      if (std::find(places.begin(), places.end(), where) == places.end()) places.push_back(where);
    }
    std::string text = "deadlock:";
    for (std::size_t i = 0; i < places.size(); ++i) {
      int first = -1, others = -1;
      for (int t = 0; t < block_.kernel.threads; ++t) {
        if ((threads_[index(t)].ended ? nullptr : threads_[index(t)].waits_at) != places[i]) continue;
        if (first < 0) first = t;
        ++others;
      }
      text += message(i == 0 ? " thread " : ", thread ", first);
      if (others > 0) text += message(" and ", others, others == 1 ? " other" : " others");
      bool const one = others == 0;
      text += places[i] ? message(one ? " waits at " : " wait at ", places[i]) : (one ? " has ended" : " have ended");
    }
    if (explain_) text += explain_(watcher_);
    return text;
  }

  running_block const& block_;
  void (*body_)(void*, int) = nullptr;
  void* context_ = nullptr;

  fiber host_;
  std::array<thread_state, max_threads> threads_;
  std::array<warp, max_threads / 32> warps_;
  std::array<group, max_threads / 128> groups_;
  std::array<std::uint16_t, max_threads> queue_{};  // a ring of ready threads
  int first_ready_ = 0, ready_ = 0, at_barrier_ = 0, first_at_barrier_ = 0, ended_ = 0;
  char const* barrier_ = nullptr;
  std::set<std::string> texts_;  // places where threads wait, each at one address
  std::string deadlock_;
  std::exception_ptr error_;
  void* watcher_ = nullptr;
  bool (*stalled_)(void*) = nullptr;
  std::string (*explain_)(void*) = nullptr;
};

}  // namespace headmix::cuda_kernels::emulator
