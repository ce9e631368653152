#pragma once
// SPDX-License-Identifier: MIT
// CUDA graphs: a pass is captured once and launched as one graph.

#include <memory>
#include <utility>

#include "headmix/backend/cuda/sm80.cuh"

namespace headmix {

/// The captured work of a callable on a queue, to be launched any number of times, on the same memory. It keeps the
/// queue alive, but nothing else that the callable uses. Movable, not copyable.
///
///   cuda_graph step(queue, [&] { module.forward(); module.backward(); });
///   step.launch();
///
/// The callable runs once under capture; nothing is computed until launch(). Capture a callable that has run before:
/// its first run may load code and allocate, which capture does not allow. A module that then works on larger batches
/// allocates new memory, and its passes must be captured again.
class cuda_graph {
 public:
  /// Calls `work` once and captures its work on the queue. Throws Error for CUDA's default stream.
  template <class Queue, class Work>
  cuda_graph(Queue const& queue, Work&& work) : stream_(queue.stream()), keeps_(std::make_shared<Queue const>(queue)) {
    if (stream_ == nullptr) fail("a graph needs a stream: CUDA's default stream cannot be recorded");
    recording record{stream_};
    std::forward<Work>(work)();
    record.end();
    cuda_kernels::check(cudaGraphInstantiate(&executable_, record.graph, 0), "making a CUDA graph");
  }
  /// The moved-from object has no graph.
  cuda_graph(cuda_graph&& other) noexcept
      : stream_(other.stream_),
        keeps_(std::move(other.keeps_)),
        executable_(std::exchange(other.executable_, nullptr)) {}
  /// Exchanges graphs with `other`.
  cuda_graph& operator=(cuda_graph&& other) noexcept {
    std::swap(stream_, other.stream_);
    std::swap(keeps_, other.keeps_);
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~cuda_graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  /// Launches the captured work on the stream; returns at once.
  void launch() const { cuda_kernels::check(cudaGraphLaunch(executable_, stream_), "launching a CUDA graph"); }

 private:
  /// Ends the capture also after an exception, since a capturing stream refuses all later work.
  struct recording {
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    bool open = false;

    explicit recording(cudaStream_t s) : stream(s) {
      cuda_kernels::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a CUDA graph");
      open = true;
    }
    recording(recording const&) = delete;
    recording& operator=(recording const&) = delete;
    void end() {
      open = false;
      cuda_kernels::check(cudaStreamEndCapture(stream, &graph), "recording a CUDA graph");
    }
    ~recording() {
      if (open) cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
  };

  cudaStream_t stream_;
  std::shared_ptr<void const> keeps_;  // the queue, with its stream and scratch memory
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace headmix
