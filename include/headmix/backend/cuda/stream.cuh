#pragma once
// SPDX-License-Identifier: MIT
// The host's side of a GPU: device memory, and a stream for kernels, copies and products. For nvcc.

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "headmix/backend/cuda/blas.cuh"
#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// An error if a CUDA runtime call failed; the parts describe the call.
template <class... Part>
void check(cudaError_t status, Part const&... doing) {
  if (status == cudaSuccess) return;
  fail(doing..., ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}
/// The only CUDA kernel template; the functor is its body. The operands stay in parameter memory: a copy would be in
/// local memory.
template <class Device, class K>
__global__ void __launch_bounds__(K::threads, for_warpgroups<K> ? 1 : 0) run(__grid_constant__ K const kernel) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // Programmatic dependent launch: blocks of the next launch may start as soon as all blocks of this one have begun,
  // and wait here until it has ended and its writes are visible. Saves the latency of a launch.
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (for_warpgroups<K>) {
    __trap();  // queues never launch it here
    return;
  } else
#endif
  {
    Device device;
    kernel(device);
  }
}
/// A kernel whose attributes tell the architectures of this build.
struct empty_kernel {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  template <class Device>
  HEADMIX_DEVICE void operator()(Device&) const {}
};

/// Owned, zeroed memory of the current device; movable, not copyable.
class memory {
 public:
  memory() = default;
  explicit memory(std::size_t bytes) : memory() {  // from here on the destructor runs, also after an error
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), "allocating ", bytes, " bytes of GPU memory");
    bytes_ = bytes;
    check(cudaMemset(data_, 0, bytes), "clearing GPU memory");
    // Streams that do not wait for the default stream must see the zeros too.
    check(cudaStreamSynchronize(nullptr), "clearing GPU memory");
  }
  memory(memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  memory& operator=(memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory() {
    if (data_ != nullptr) cudaFree(data_);
  }

  [[nodiscard]] std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }
  /// The memory from `offset` on, as a pointer to numbers.
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A CUDA stream, a cuBLAS handle and scratch memory, shared by copies. All allocations are made at construction, so
/// that everything can be captured into a graph. It belongs to the device that was current at construction: a kernel or
/// product submitted while another device is current is an Error.
template <class Device>
class stream_queue {
 public:
  /// A new stream on the current device. It does not synchronise with CUDA's default stream: callers who use that
  /// stream synchronise before the two share memory.
  stream_queue() : shared_(std::make_shared<resources>(nullptr, true, std::span<std::byte>{}, nullptr)) {}
  /// The caller's stream (null is CUDA's default stream, which cannot be captured) and, unless empty, the caller's
  /// scratch memory: at a multiple of 256, at least 32 MiB for the fastest products.
  /// @param blas  a handle of the caller with this stream and memory of its own, whose math mode the queue sets; null:
  ///   a new one
  explicit stream_queue(cudaStream_t stream, std::span<std::byte> workspace = {}, cublasHandle_t blas = nullptr)
      : shared_(std::make_shared<resources>(stream, false, workspace, blas)) {}

  [[nodiscard]] cudaStream_t stream() const { return shared_->stream; }
  [[nodiscard]] std::span<std::byte> workspace() const { return shared_->workspace; }
  [[nodiscard]] int processors() const { return shared_->processors; }
  [[nodiscard]] int shared_bytes() const { return shared_->shared_bytes; }
  /// The device's number in the process.
  [[nodiscard]] int device() const { return shared_->device; }

  template <class K>
  void launch(K const& kernel, Index blocks) const {
    static_assert(Kernel<K>, "headmix: a kernel is copied as bits and has threads, cooperative and shared_bytes");
    static_assert(K::threads % 32 == 0 && K::threads <= 1024,
                  "headmix: a kernel has whole warps of threads, and at most 1024 of them");
    if (blocks <= 0) return;
    if (blocks > (std::numeric_limits<int>::max)()) fail(type_name<K>(), ": ", blocks, " blocks are too many");
    check_device(headmix::detail::name_source<K>());
    check_operands<K>();
    constexpr int static_limit = 48 << 10;
    if constexpr (K::shared_bytes > static_limit) {
      check_shared<K>(shared_->shared_bytes);
      // More than 48 KiB must be requested. At every launch: each unit has its own function for the kernel, and the
      // linker would keep one flag for all of them.
      cudaError_t const allowed =
          cudaFuncSetAttribute(run<Device, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, K::shared_bytes);
      if (allowed != cudaSuccess) check(allowed, type_name<K>(), " with ", K::shared_bytes, " bytes of shared memory");
    }
    cudaLaunchAttribute attributes[2];
    unsigned count = 0;
    constexpr int cluster = blocks_of_cluster<K>;
    if constexpr (cluster > 1) {
      attributes[count].id = cudaLaunchAttributeClusterDimension;
      attributes[count++].val.clusterDim = {cluster, 1, 1};
    }
    if (shared_->overlaps) {
      attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(K::threads);
    config.dynamicSmemBytes = K::shared_bytes;
    config.stream = shared_->stream;
    config.attrs = attributes;
    config.numAttrs = count;
    void* operands[] = {const_cast<K*>(&kernel)};
    cudaError_t const status = cudaLaunchKernelExC(&config, reinterpret_cast<void const*>(run<Device, K>), operands);
    if (status == cudaErrorNoKernelImageForDevice) {
      static_cast<void>(cudaGetLastError());  // otherwise the next call would report it again
      fail(type_name<K>(), " was not compiled for compute capability ", shared_->capability,
           "; add it to CMAKE_CUDA_ARCHITECTURES (or -arch)");
    }
    if (status != cudaSuccess) check(status, "launching ", type_name<K>());
  }

  /// y (+)= a b by cuBLAS; false if the caller must compute it.
  template <class T, class A, class B>
  bool gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
    check_device("a product");
    return blas_gemm(shared_->blas, y, a, b, accumulate);
  }

  /// The host memory may be reused at once, unless it is pinned. Not during capture: a graph would copy the content at
  /// launch.
  void upload(void* device, void const* host, std::size_t bytes) const {
    if (bytes == 0) return;
    cudaStreamCaptureStatus recording;
    check(cudaStreamIsCapturing(shared_->stream, &recording), "copying to the GPU");
    if (recording != cudaStreamCaptureStatusNone) {
      fail(
          "a copy from the host cannot be recorded; run the pass once before, with the same sequences, and give its "
          "randomness by set_randomness()");
    }
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, shared_->stream), "copying to the GPU");
  }
  void download(void* host, void const* device, std::size_t bytes) const {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, shared_->stream), "copying from the GPU");
    synchronize();
  }
  void synchronize() const { check(cudaStreamSynchronize(shared_->stream), "waiting for the GPU"); }

 private:
  /// An error unless the queue's device is the current one, on which CUDA launches any stream's work.
  /// @param name_source  signature of the submitted work; its name is extracted for the error only, which takes time
  void check_device(char const* name_source) const {
    int current = 0;
    check(cudaGetDevice(&current), "asking for the current CUDA device");
    if (current != shared_->device) {
      fail(headmix::detail::unqualified(name_source), " is put into a queue of device ", shared_->device,
           " while device ", current, " is current: call cudaSetDevice(", shared_->device, ") before");
    }
  }
  /// Checks, once for each kernel, that its operands have as many bytes on the device as on the host. nvcc 13.0
  /// silently lays out some classes with a [[no_unique_address]] member differently.
  template <class K>
  static void check_operands() {
#if CUDART_VERSION >= 13000
    static bool const checked = [] {
      std::size_t offset = 0, bytes = 0;
      auto const function = reinterpret_cast<void const*>(run<Device, K>);
      if (cudaFuncGetParamInfo(function, 0, &offset, &bytes) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());  // no code for this device: the launch reports it
      } else if (bytes != sizeof(K)) {
        fail(type_name<K>(), " has ", bytes, " bytes of operands in the GPU's code, and ", sizeof(K),
             " here; has it a member that is [[no_unique_address]]?");
      }
      return true;
    }();
    static_cast<void>(checked);
#endif
  }

  static constexpr std::size_t least_workspace = std::size_t{1} << 20;  // for partial sums of our own kernels

  struct resources {
    cudaStream_t stream = nullptr;
    bool owns_stream = false, owns_blas = false;
    cublasHandle_t blas = nullptr;
    memory scratch;
    std::span<std::byte> workspace;
    int device = 0, processors = 0, shared_bytes = 0;
    bool overlaps = false;  ///< kernels wait for their predecessors, so launches may overlap
    std::string capability;

    resources() = default;
    resources(cudaStream_t given, bool own, std::span<std::byte> given_workspace, cublasHandle_t given_blas)
        : resources() {  // as in memory
      int count = 0, major = 0, minor = 0;
      check(cudaGetDeviceCount(&count), "no CUDA device");
      if (count == 0) fail("no CUDA device");
      check(cudaGetDevice(&device), "no CUDA device");
      check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking the CUDA device");
      check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
            "asking the CUDA device");
      check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking the CUDA device");
      check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking the CUDA device");
      capability = message(major, ".", minor);
      // Code of an older architecture does not wait. Without code for this device the launch reports it.
      cudaFuncAttributes code = {};
      if (cudaFuncGetAttributes(&code, run<Device, empty_kernel>) == cudaSuccess) {
        overlaps = major >= 9 && code.ptxVersion >= 90;
      } else {
        static_cast<void>(cudaGetLastError());
      }
      if (given_workspace.empty()) {
        scratch = memory(std::size_t{32} << 20);
        workspace = scratch.bytes();
      } else if (reinterpret_cast<std::uintptr_t>(given_workspace.data()) % 256 != 0) {
        fail("the workspace of a queue must lie at a multiple of 256 bytes");
      } else if (given_workspace.size() < least_workspace) {
        fail("the workspace of a queue has ", given_workspace.size(), " bytes, expected ", least_workspace, " or more");
      } else {
        workspace = given_workspace;
      }
      if (own) {
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a CUDA stream");
        owns_stream = true;
      } else {
        stream = given;
      }
      if (given_blas != nullptr) {
        blas = given_blas;
      } else {
        check(cublasCreate(&blas), "creating a cuBLAS handle");
        owns_blas = true;
        check(cublasSetStream(blas, stream), "cuBLAS");
        // After the stream: setting that resets the handle to its own memory.
        check(cublasSetWorkspace(blas, workspace.data(), workspace.size()), "cuBLAS");
      }
      // Partial sums of bfloat16 products stay float.
      check(cublasSetMathMode(blas, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                              CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
            "cuBLAS");
    }
    resources(resources const&) = delete;
    resources& operator=(resources const&) = delete;
    ~resources() {
      if (owns_blas) cublasDestroy(blas);
      if (owns_stream) cudaStreamDestroy(stream);
    }
  };

  std::shared_ptr<resources> shared_;
};

}  // namespace headmix::cuda_kernels
