#pragma once
// SPDX-License-Identifier: MIT
// A layer on the threads of a host that calls every operation from all of its threads, as ggml does with (ith, nth):
// thread 0 runs the pass, and the others execute tasks of its kernels until it has ended.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/executor.hpp"
#include "headmix/backend/threads.hpp"
#include "headmix/program/module.hpp"

namespace headmix {

/// An executor without threads of its own: the tasks of a parallel_for run on the threads that are inside run().
/// Results have the bits of one thread. It must outlive all calls of run().
///
///   host_threads threads(8);                                // at most
///   Module<Layer, Cpu<float, host_threads>> m(seed, Cpu<float, host_threads>(threads));
///   // on every thread of the host, ith = 0 .. nth - 1:
///   auto const y = threads.run(ith, nth, [&] { return m.forward(x); });
///
/// There is one pass at a time, and no nested run(). A parallel_for outside of run(), or inside a task of another, runs
/// serially on the calling thread. Between calls nothing is allocated.
class host_threads {
 public:
  /// @param most the largest nth of any call, 1 to 4096: kernels have scratch memory for this many threads
  explicit host_threads(Index most) : most_(detail::checked_threads("host_threads", most)) {
    seats_ = std::make_unique<seat[]>(static_cast<std::size_t>(most));
  }
  host_threads(host_threads const&) = delete;
  host_threads& operator=(host_threads const&) = delete;

  [[nodiscard]] Index concurrency() const { return most_; }

  /// To be called on nth threads at the same time, with a different number ith on each; returns the result of the pass
  /// on all of them when it has ended. Calls of one thread may follow each other without a barrier of the host. nth may
  /// differ between passes, not between the threads of one.
  ///
  /// An invalid call (nth or ith out of range, another nth than that of thread 0, two threads with one number, a run()
  /// inside of a pass) is an Error on its thread, and from then on every call on every thread is an Error that names
  /// it, so that no thread waits for a refused one. Make another host_threads then. A thread that never arrives is
  /// waited for.
  /// @param pass called on thread 0, e.g. forward and backward passes of modules with this executor. An exception is
  ///             rethrown on thread 0, and is an Error with its text on every other thread
  template <class F>
  auto run(Index ith, Index nth, F&& pass) {
    using result = std::invoke_result_t<F&>;
    check();
    if (nth < 1 || nth > most_) refuse(ith, message("expected 1 to ", most_, " threads, found nth = ", nth));
    if (ith < 0 || ith >= nth) refuse(ith, message("expected ith from 0 to ", nth - 1, ", found ", ith));
    if constexpr (std::is_void_v<result>) {
      run_for<nothing>(ith, nth, [&] {
        pass();
        return nothing{};
      });
    } else {
      return run_for<result>(ith, nth, pass);
    }
  }

  template <class F>
  void parallel_for(Index n, F&& f) {
    if (n <= 1 || helpers_.load(std::memory_order_relaxed) == 0 || busy_.test_and_set(std::memory_order_acquire)) {
      for (Index i = 0; i < n; ++i) f(i);
      return;
    }
    using function = std::remove_reference_t<F>;
    job work{[](void* p, Index i) { (*static_cast<function*>(p))(i); },
             const_cast<void*>(static_cast<void const*>(std::addressof(f))), n};
    current_.store(&work);
    signal();
    work.work();
    // From here on no thread finds the job; those that had found it are counted in `helping_`.
    current_.store(nullptr);
    for (Index helping; (helping = helping_.load()) != 0;) helping_.wait(helping);
    busy_.clear(std::memory_order_release);
#ifndef HEADMIX_NO_EXCEPTIONS
    if (work.error) std::rethrow_exception(work.error);
#endif
  }

 private:
  struct nothing {};
  /// One seat per thread. Its states: closed; the nth of the pass that waits for the thread; taken while the thread is
  /// in the pass; refused for ever.
  struct alignas(64) seat {
    std::atomic<std::uint32_t> state{closed};
  };
  static constexpr std::uint32_t closed = 0, taken = 1u << 16, refused = 1u << 17;
  struct job {
    void (*call)(void*, Index);
    void* function;
    Index tasks;
    std::atomic<Index> next{0};
    std::atomic_flag failed{};
    std::exception_ptr error{};

    void take() {
      for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) call(function, i);
    }
    void work() noexcept {
#ifdef HEADMIX_NO_EXCEPTIONS
      take();
#else
      try {
        take();
      } catch (...) {
        next.store(tasks);  // no other thread begins a task
        if (!failed.test_and_set()) error = std::current_exception();
      }
#endif
    }
  };

  template <class Result, class F>
  Result run_for(Index ith, Index nth, F&& pass) {
    if (ith != 0) return follow<Result>(ith, nth);
    begin(nth);
#ifdef HEADMIX_NO_EXCEPTIONS
    Result const result = pass();
    end(nth, &result, nullptr);
    return result;
#else
    try {
      Result result = pass();
      end(nth, &result, nullptr);
      if (!refused_.load()) return result;
    } catch (std::exception const& e) {
      end(nth, nullptr, e.what());
      throw;
    } catch (...) {
      end(nth, nullptr, "headmix: an exception without a text in a pass on the threads of a host");
      throw;
    }
    fail(refusal_);
#endif
  }
  std::atomic<std::uint32_t>& state_of(Index ith) noexcept { return seats_[static_cast<std::size_t>(ith)].state; }
  void begin(Index nth) {
    if (state_of(0).exchange(taken) == taken) refuse(0, "it is in a pass already, or there are two of them");
    over_.store(false);
    for (Index i = 1; i < nth; ++i) {
      std::uint32_t seen = closed;
      state_of(i).compare_exchange_strong(seen, static_cast<std::uint32_t>(nth));
      state_of(i).notify_all();
    }
    helpers_.store(nth - 1);
  }
  /// Returns when all others have taken the result or the error and left, or are refused.
  void end(Index nth, void const* result, char const* error) noexcept {
    helpers_.store(0);
    result_ = result;
    if (error != nullptr) std::snprintf(error_, sizeof error_, "%s", error);
    over_.store(true);
    signal();
    for (Index i = 1; i < nth; ++i) {
      auto& state = state_of(i);
      for (std::uint32_t seen; (seen = state.load()) != closed && seen != refused;) state.wait(seen);
    }
    state_of(0).store(closed);
  }
  void leave(Index ith) noexcept {
    auto& state = state_of(ith);
    state.store(closed);
    if (refused_.load()) state.store(refused);
    state.notify_all();
  }
  void check() const {
    if (refused_.load()) fail(refusal_);
  }
  /// Releases all waiting threads, and refuses further calls.
  [[noreturn]] void refuse(Index ith, std::string const& text) {
    if (!refusing_.test_and_set()) {
      std::snprintf(refusal_, sizeof refusal_, "%s",
                    message("host_threads: thread ", ith, " is refused: ", text).c_str());
      refused_.store(true);
      for (Index i = 1; i < most_; ++i) {
        auto& state = state_of(i);
        auto seen = state.load();
        while (seen != taken && seen != refused && !state.compare_exchange_weak(seen, refused)) {
        }
        state.notify_all();
      }
    }
    fail("host_threads: ", text);
  }
  void signal() noexcept {
    signal_.fetch_add(1);
    signal_.notify_all();
  }
  /// Waits until thread 0 has begun.
  void take_seat(Index ith, Index nth) {
    auto& state = state_of(ith);
    for (;;) {
      auto seen = state.load();
      if (seen == refused) fail(refusal_);
      if (seen == taken) refuse(ith, "it is in a pass already, or there are two of them");
      if (seen == closed) {
        state.wait(closed);
      } else if (seen != static_cast<std::uint32_t>(nth)) {
        refuse(ith, message("expected nth = ", seen, " as on thread 0, found ", nth));
      } else if (state.compare_exchange_strong(seen, taken)) {
        return;
      }
    }
  }
  template <class Result>
  Result follow(Index ith, Index nth) {
    struct place {
      host_threads& host;
      Index ith;
      ~place() { host.leave(ith); }
    };
    take_seat(ith, nth);
    place const until_return{*this, ith};
    for (;;) {
      auto const seen = signal_.load();  // before the check: a later job changes it
      if (over_.load()) break;
      helping_.fetch_add(1);
      if (job* const work = current_.load()) work->work();
      if (helping_.fetch_sub(1) == 1) helping_.notify_all();
      signal_.wait(seen);
    }
#ifndef HEADMIX_NO_EXCEPTIONS
    if (result_ == nullptr) throw Error(error_);
#endif
    check();
    return *static_cast<Result const*>(result_);
  }

  Index most_;
  std::unique_ptr<seat[]> seats_;
  std::atomic<Index> helpers_{0};  // number of other threads in the pass
  std::atomic<job*> current_{nullptr};
  std::atomic<Index> helping_{0};
  std::atomic<std::uint32_t> signal_{0};  // changes with every job, and at the end of a pass
  std::atomic<bool> over_{false};
  std::atomic_flag busy_{};
  void const* result_ = nullptr;
  char error_[1024] = {};
  std::atomic_flag refusing_{};
  std::atomic<bool> refused_{false};  // once true, refusal_ is constant
  char refusal_[256] = {};
};

static_assert(Executor<host_threads>, "headmix: host_threads is no Executor");

/// A module that all threads of a host call together. forward() returns y on every thread.
/// @tparam Backend Cpu<float, host_threads> or Cpu<double, host_threads>
template <LayerPolicy L, BackendPolicy Backend = Cpu<float, host_threads>, class Mode = training>
class HostModule {
 public:
  using scalar = typename Backend::scalar;
  /// The type of module().
  using module_type = Module<L, Backend, Mode>;
  /// The scalar type of results and their gradients.
  using result_scalar = typename module_type::result_scalar;

  /// @param most_threads the largest nth of any call
  template <Extent... X>
  HostModule(Index most_threads, std::uint64_t seed, size_value<X>... sizes)
      : threads_(most_threads), module_(seed, Backend(threads_), sizes...) {}

  /// Module::forward on the host's threads; x and b of thread 0 are used.
  view<result_scalar const> forward(Index ith, Index nth, view<scalar const> x, batch const& b) {
    return threads_.run(ith, nth, [&] { return module_.forward(x, b); });
  }
  /// Module::forward of one sequence on the host's threads.
  view<result_scalar const> forward(Index ith, Index nth, view<scalar const> x) {
    return forward(ith, nth, x, uniform(1, x.rows));
  }
  /// Module::backward on the host's threads; dy and the weights of thread 0 are used.
  template <class M = Mode>
  void backward(Index ith, Index nth, view<result_scalar const> dy, std::initializer_list<double> weights = {}) {
    threads_.run(ith, nth, [&] { module_.template backward<M>(dy, weights); });
  }
  /// The module, for parameters, gradients and losses; its own passes run on the calling thread.
  [[nodiscard]] module_type& module() { return module_; }
  /// The executor, for other work of the host's threads on this module.
  [[nodiscard]] host_threads& threads() { return threads_; }

 private:
  host_threads threads_;
  module_type module_;
};

}  // namespace headmix
