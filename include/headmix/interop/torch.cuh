#pragma once
// SPDX-License-Identifier: MIT
// Any layer as an operator of PyTorch on a GPU: torch_cuda_layer. For nvcc, with the headers of PyTorch, and linked to
// libc10_cuda and libtorch_cuda too. On the CPU: torch.hpp.

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "headmix/headmix.cuh"
#include "headmix/interop/torch_layer.hpp"

namespace headmix {

/// Tensors of a GPU: passes run on PyTorch's current stream with its cuBLAS handle, and all memory comes from its
/// caching allocator. They wait for nothing, and can be captured by torch.cuda.graph.
/// @tparam Device Sm80 or Sm90a
template <class Device>
struct torch_cuda {
  static constexpr at::DeviceType type = at::kCUDA;                             ///< of the tensors
  static constexpr c10::DispatchKey autocast = c10::DispatchKey::AutocastCUDA;  ///< of this type
  /// Makes a tensor's GPU the current one.
  using guard = c10::cuda::CUDAGuard;
  /// The backend of passes; its scratch memory lives from enter() to leave().
  template <class Scalar>
  struct place {
    at::Tensor scratch = memory(scratch_bytes);  ///< of kernels and reductions
    Cuda<Scalar, Device> backend{queue()};       ///< on the stream that was current
    /// Before a pass: the current stream, and scratch memory.
    void enter() {
      if (!scratch.defined()) *this = place();
    }
    /// After a pass.
    void leave() { scratch.reset(); }
    /// Memory for the length of a pass.
    [[nodiscard]] static at::Tensor memory(std::int64_t bytes) {
      return at::empty({bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
    }

   private:
    static constexpr std::int64_t scratch_bytes = std::int64_t{32} << 20;  // as queues with memory of their own
    [[nodiscard]] typename Device::queue queue() const {
      std::span<std::byte> const memory(static_cast<std::byte*>(scratch.data_ptr()), std::size_t{scratch_bytes});
      return typename Device::queue(at::cuda::getCurrentCUDAStream(), memory, at::cuda::getCurrentCUDABlasHandle());
    }
  };
};

/// A torch_layer on a GPU.
template <LayerPolicy L, class Device, class Scalars = type_list<float, bfloat16>, class Parameters = void,
          class Sizes = type_list<>>
using torch_cuda_layer = torch_layer<L, Parameters, Sizes, Scalars, torch_cuda<Device>>;

}  // namespace headmix
