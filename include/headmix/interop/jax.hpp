#pragma once
// SPDX-License-Identifier: MIT
// Any layer as a function of JAX on the CPU: jax_layer with jax_cpu; not in the umbrella header. On a GPU: jax.cuh.

#include <algorithm>
#include <functional>
#include <thread>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/eigen_pool.hpp"
#include "headmix/interop/jax_layer.hpp"

namespace headmix {

namespace detail {

/// XLA's threads as an Executor; the thread of the call is one of them. Its concurrency is the machine's, which is
/// known when JAX asks for the bytes of the workspace, before there is a pool.
class jax_threads {
 public:
  explicit jax_threads(xla::ffi::ThreadPool* pool = nullptr) : pool_(pool), executor_(pool_) {}
  [[nodiscard]] Index concurrency() const { return executor_.concurrency(); }
  template <class F>
  void parallel_for(Index n, F&& f) {
    executor_.parallel_for(n, std::forward<F>(f));
  }

 private:
  struct adapter final : Eigen::ThreadPoolInterface {
    explicit adapter(xla::ffi::ThreadPool* p) : pool(p) {}
    void Schedule(std::function<void()> f) override { pool->Schedule(std::move(f)); }
    [[nodiscard]] int NumThreads() const override {
      return (std::max)(0, static_cast<int>(std::thread::hardware_concurrency()) - 1);
    }
    [[nodiscard]] int CurrentThreadId() const override { return -1; }
    xla::ffi::ThreadPool* pool;
  };
  adapter pool_;
  eigen_pool executor_;
};
static_assert(Executor<jax_threads>, "headmix: jax_threads is no Executor");

}  // namespace detail

/// Arrays of the CPU, on XLA's threads.
struct jax_cpu {
  static constexpr char const* platform = "cpu";  ///< XLA's name
  /// The context of a call.
  using call = xla::ffi::ThreadPool;
  /// The backend of a pass.
  template <class Scalar>
  struct place {
    detail::jax_threads threads;                        ///< none while a pass is planned
    Cpu<Scalar, detail::jax_threads> backend{threads};  ///< on these threads
    place() = default;
    /// For a call.
    explicit place(call& pool) : threads(&pool) {}
  };
};

}  // namespace headmix
