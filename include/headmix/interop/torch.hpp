#pragma once
// SPDX-License-Identifier: MIT
// Any layer as an operator of PyTorch on the CPU: torch_layer with torch_cpu. Needs LibTorch 1.13 or newer, or
// PyTorch's own; not in the umbrella header. On a GPU: torch.cuh.

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "headmix/backend/cpu.hpp"
#include "headmix/interop/torch_layer.hpp"

namespace headmix {

/// PyTorch's intra-op threads, torch.get_num_threads() of them, in units compiled with -fopenmp like PyTorch; in other
/// units the calling thread alone. Inside a parallel region of PyTorch the tasks run serially.
struct torch_threads {
  /// The current number of threads.
  static Index count() {
#ifdef INTRA_OP_PARALLEL
    return at::get_num_threads();
#else
    return 1;
#endif
  }
  Index threads = count();  ///< number of threads at construction
  [[nodiscard]] Index concurrency() const { return threads; }
  template <class F>
  void parallel_for(Index n, F&& f) {
    std::atomic<Index> next{0};
    at::parallel_for(0, (std::min)(threads, n), 1, [&](std::int64_t, std::int64_t) {
      for (Index i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(i);
    });
  }
};
static_assert(Executor<torch_threads>, "headmix: torch_threads is no Executor");

/// Tensors on the CPU.
struct torch_cpu {
  static constexpr at::DeviceType type = at::kCPU;                             ///< of the tensors
  static constexpr c10::DispatchKey autocast = c10::DispatchKey::AutocastCPU;  ///< of this type
  /// There is nothing to select.
  struct guard {
    /// A guard for the device of a tensor.
    explicit guard(at::Device) {}
  };
  /// The backend of passes.
  template <class Scalar>
  struct place {
    torch_threads threads;                        ///< those at construction
    Cpu<Scalar, torch_threads> backend{threads};  ///< on these threads
    /// Before a pass: nothing.
    void enter() {}
    /// After a pass: nothing.
    void leave() {}
    /// One block for all passes of a thread: blocks of the heap that come and go between activations leave holes.
    [[nodiscard]] static at::Tensor memory(std::int64_t bytes) {
      thread_local at::Tensor block;
      if (!block.defined() || block.numel() < bytes) {
        block.reset();
        block = at::empty({bytes}, at::kByte);
      }
      return block;
    }
  };
};

}  // namespace headmix
