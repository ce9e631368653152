#pragma once
// SPDX-License-Identifier: MIT
// CUDA graphs: record a pass once, run it again with one launch.

#include <memory>
#include <utility>

#include "headmix/backend/cuda/sm80.cuh"

namespace headmix {

/// What a callable put into a queue, to be run again as often as wanted, on the same memory. It keeps the queue alive,
/// and not what else the callable worked on. Movable, not copyable.
///
///   cuda_graph step(queue, [&] { module.forward(); module.backward(); });
///   step.launch();
///
/// The callable runs once, for its calls to be recorded; nothing is computed until launch(). Record a callable that has
/// run before: its first run may load code and allocate, which a recording does not allow. A module that then works on
/// larger batches takes new memory, and its recorded passes must be recorded again.
class cuda_graph {
 public:
  /// Calls `work` once and records what it puts into the queue. Throws Error for CUDA's default stream.
  template <class Queue, class Work>
  cuda_graph(Queue const& queue, Work&& work) : stream_(queue.stream()), keeps_(std::make_shared<Queue const>(queue)) {
    if (stream_ == nullptr) fail("a graph needs a stream: CUDA's default stream cannot be recorded");
    recording record{stream_};
    std::forward<Work>(work)();
    record.end();
    gpu::check(cudaGraphInstantiate(&executable_, record.graph, 0), "making a CUDA graph");
  }
  /// Takes the graph of `other`, which has none afterwards.
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

  /// Puts the recorded work into the stream; returns at once.
  void launch() const { gpu::check(cudaGraphLaunch(executable_, stream_), "launching a CUDA graph"); }

 private:
  /// A stream that was left recording, by an exception say, would refuse all that follows.
  struct recording {
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    bool open = false;

    explicit recording(cudaStream_t s) : stream(s) {
      gpu::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a CUDA graph");
      open = true;
    }
    recording(recording const&) = delete;
    recording& operator=(recording const&) = delete;
    void end() {
      open = false;
      gpu::check(cudaStreamEndCapture(stream, &graph), "recording a CUDA graph");
    }
    ~recording() {
      if (open) cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
  };

  cudaStream_t stream_;
  std::shared_ptr<void const> keeps_;  // the queue: its stream and the scratch memory that kernels work in
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace headmix
