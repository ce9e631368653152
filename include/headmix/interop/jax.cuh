#pragma once
// SPDX-License-Identifier: MIT
// Any layer as a function of JAX on a GPU: jax_cuda_layer. For nvcc, with headers of jaxlib, and linked to cuBLAS. On
// the CPU: jax.hpp.

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headmix/headmix.cuh"
#include "headmix/interop/jax_layer.hpp"

namespace headmix::detail {

/// The context of a call on a GPU.
struct jax_cuda_call {
  cudaStream_t stream;
  xla::ffi::ScratchAllocator scratch;
};

/// A handle of cuBLAS for the length of a call, from those of the current device that no call has.
class jax_blas {
 public:
  jax_blas() {
    cuda_kernels::check(cudaGetDevice(&device_), "no CUDA device");
    {
      std::scoped_lock const one(free().mutex);
      auto& mine = free().handles[device_];
      if (!mine.empty()) handle_ = mine.back(), mine.pop_back();
    }
    if (handle_ == nullptr) cuda_kernels::check(cublasCreate(&handle_), "creating a cuBLAS handle");
  }
  jax_blas(jax_blas&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  ~jax_blas() {
    if (handle_ == nullptr) return;
    std::scoped_lock const one(free().mutex);
    free().handles[device_].push_back(handle_);
  }
  /// The handle on a stream with this memory.
  [[nodiscard]] cublasHandle_t on(cudaStream_t stream, std::span<std::byte> memory) const {
    cuda_kernels::check(cublasSetStream(handle_, stream), "cuBLAS");
    cuda_kernels::check(cublasSetWorkspace(handle_, memory.data(), memory.size()), "cuBLAS");
    return handle_;
  }

 private:
  struct pool {
    std::mutex mutex;
    std::map<int, std::vector<cublasHandle_t>> handles;
  };
  static pool& free() {
    static pool& all = *new pool;  // outlives the devices
    return all;
  }
  int device_ = 0;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace headmix::detail

/// @cond
/// Decodes a jax_cuda_call, the context of a handler.
template <>
struct xla::ffi::CtxDecoding<headmix::detail::jax_cuda_call> {
  using Type = headmix::detail::jax_cuda_call;
  static std::optional<Type> Decode(XLA_FFI_Api const* api, XLA_FFI_ExecutionContext* context,
                                    DiagnosticEngine& diagnostic) {
    auto const stream = CtxDecoding<PlatformStream<cudaStream_t>>::Decode(api, context, diagnostic);
    auto scratch = CtxDecoding<ScratchAllocator>::Decode(api, context, diagnostic);
    if (!stream || !scratch) return std::nullopt;
    return Type{*stream, std::move(*scratch)};
  }
};
/// @endcond

namespace headmix {

/// Arrays of a GPU: passes run on XLA's stream, and scratch memory comes from its allocator. They wait for nothing.
/// @tparam Device Sm80 or Sm90a
template <class Device>
struct jax_cuda {
  static constexpr char const* platform = "CUDA";  ///< XLA's name
  /// The context of a call.
  using call = detail::jax_cuda_call;
  /// The backend of a pass.
  template <class Scalar>
  struct place {
    detail::jax_blas blas;         ///< for the length of a call
    Cuda<Scalar, Device> backend;  ///< on the stream of the call
    place() : backend(planning_queue()) {}
    /// For a call.
    explicit place(call& c) : backend(queue(c)) {}

   private:
    static constexpr std::size_t scratch_bytes = std::size_t{32} << 20;  // as queues with memory of their own
    static typename Device::queue& planning_queue() {
      static auto& one = *new typename Device::queue;  // outlives the devices
      return one;
    }
    [[nodiscard]] typename Device::queue queue(call& c) const {
      auto const memory = c.scratch.Allocate(scratch_bytes, 256);
      if (!memory) fail("allocating ", scratch_bytes, " bytes of GPU memory: XLA has none");
      std::span<std::byte> const scratch(static_cast<std::byte*>(*memory), scratch_bytes);
      return typename Device::queue(c.stream, scratch, blas.on(c.stream, scratch));
    }
  };
};

/// A jax_layer on a GPU.
template <LayerPolicy L, class Device, class Scalars = type_list<float, bfloat16>>
using jax_cuda_layer = jax_layer<L, Scalars, jax_cuda<Device>>;

}  // namespace headmix
