#pragma once
// SPDX-License-Identifier: MIT
// Sm80 and Sm90a: the functions of device.hpp as CUDA and PTX, the host's side as a CUDA stream and cuBLAS. For nvcc.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "headmix needs compute capability 8.0 or newer: set CMAKE_CUDA_ARCHITECTURES (or -arch) to 80 or more"
#endif

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <atomic>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

namespace cuda {

/// Reports a failed call of the CUDA runtime, by what it was to do.
template <class... Part>
void check(cudaError_t status, Part const&... doing) {
  if (status == cudaSuccess) return;
  fail(doing..., ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}
template <class... Part>
void check(cublasStatus_t status, Part const&... doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(doing..., ": ", cublasGetStatusString(status));
}

/// The one kernel of CUDA; what it does is the functor. Its operands stay where the launch put them: a copy of its own
/// would be local memory.
template <class Device, class K>
__global__ void __launch_bounds__(K::threads) run(__grid_constant__ K const kernel) {
  Device device;
  kernel(device);
}

/// Owned, zeroed memory of the current device; movable, not copyable.
class memory {
 public:
  memory() = default;
  explicit memory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), "allocating ", bytes, " bytes of GPU memory");
    check(cudaMemset(data_, 0, bytes), "clearing GPU memory");
    // A stream that does not wait for the default one must find zeros too.
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
  /// The memory from `offset` on, as numbers.
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What cuBLAS calls a storage type; `known` is false for those it is not asked about.
template <class T>
struct blas_type {
  static constexpr bool known = false;
};
template <>
struct blas_type<float> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_32F;
};
template <>
struct blas_type<double> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_64F;
};
template <>
struct blas_type<bfloat16> {
  static constexpr bool known = true;
  static constexpr cudaDataType_t type = CUDA_R_16BF;
};

/// A matrix as a library sees it: its rows (or, transposed, its columns) are contiguous, `stride` apart.
struct blas_layout {
  bool possible = false, transposed = false;
  int stride = 0;
};
/// Strides of a single row or column do not matter.
template <class T>
[[nodiscard]] blas_layout layout_of(view<T> const& v) {
  constexpr Index most = (std::numeric_limits<int>::max)();
  auto const fits = [](Index stride, Index length) { return stride >= length && stride >= 1 && stride <= most; };
  if (v.col_stride == 1 || v.cols == 1) {
    Index const stride = v.rows == 1 ? v.cols : v.row_stride;
    if (fits(stride, v.cols)) return {true, false, static_cast<int>(stride)};
  }
  if (v.row_stride == 1 || v.rows == 1) {
    Index const stride = v.cols == 1 ? v.rows : v.col_stride;
    if (fits(stride, v.rows)) return {true, true, static_cast<int>(stride)};
  }
  return {};
}

/// A CUDA stream, a cuBLAS handle and scratch memory; copies share them. All that is ever allocated is allocated here,
/// so that everything can be captured into a graph.
template <class Device>
class stream_queue {
 public:
  /// A stream of its own on the current device.
  stream_queue() : shared_(std::make_shared<resources>(nullptr, true, std::span<std::byte>{})) {}
  /// The caller's stream (null is CUDA's default stream, which cannot be captured) and, unless empty, the caller's
  /// scratch memory: at an address that is a multiple of 256, 32 MiB or more for the fastest products.
  explicit stream_queue(cudaStream_t stream, std::span<std::byte> workspace = {})
      : shared_(std::make_shared<resources>(stream, false, workspace)) {}

  [[nodiscard]] cudaStream_t stream() const { return shared_->stream; }
  [[nodiscard]] std::span<std::byte> workspace() const { return shared_->workspace; }
  [[nodiscard]] int processors() const { return shared_->processors; }

  template <class K>
  void launch(K const& kernel, Index blocks) const {
    static_assert(Kernel<K>);
    static_assert(K::threads % 32 == 0 && K::threads <= 1024);
    if (blocks <= 0) return;
    constexpr int static_limit = 48 << 10;  // more must be asked for, per kernel and device
    if constexpr (K::shared_bytes > static_limit) {
      static std::atomic<std::uint64_t> devices{0};
      std::uint64_t const bit = std::uint64_t{1} << (shared_->device & 63);
      if ((devices.load(std::memory_order_relaxed) & bit) == 0) {
        check(cudaFuncSetAttribute(run<Device, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, K::shared_bytes),
              type_name<K>(), " with ", K::shared_bytes, " bytes of shared memory");
        devices.fetch_or(bit, std::memory_order_relaxed);
      }
    }
    if (blocks > (std::numeric_limits<int>::max)()) fail(type_name<K>(), ": ", blocks, " blocks are too many");
    run<Device, K><<<static_cast<unsigned>(blocks), K::threads, K::shared_bytes, shared_->stream>>>(kernel);
    cudaError_t const status = cudaGetLastError();
    if (status == cudaErrorNoKernelImageForDevice) {
      fail(type_name<K>(), " was not compiled for compute capability ", shared_->capability,
           "; add it to CMAKE_CUDA_ARCHITECTURES (or -arch)");
    }
    check(status, "launching ", type_name<K>());
  }

  /// y (+)= a b by cuBLAS; false where the caller must do it: other types, strides that are not a library's, and sums
  /// of nothing.
  template <class T, class A, class B>
  bool gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
    constexpr bool same = std::is_same_v<A, B> && blas_type<A>::known;
    if constexpr (same && (std::is_same_v<T, A> || (std::is_same_v<T, float> && std::is_same_v<A, bfloat16>))) {
      if (y.count != 1 || a.count != 1 || b.count != 1 || a.cols == 0) return false;
      if (y.rows == 0 || y.cols == 0) return true;
      constexpr Index most = (std::numeric_limits<int>::max)();
      if (y.rows > most || y.cols > most || a.cols > most) return false;
      blas_layout const of_y = layout_of(y), of_a = layout_of(a), of_b = layout_of(b);
      if (!of_y.possible || !of_a.possible || !of_b.possible) return false;
      // The library's matrices are columns after columns: ours transposed. y' = b' a', or y = a b for a transposed y.
      auto const operation = [&](blas_layout const& l) {
        return l.transposed == of_y.transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
      };
      int const rows = static_cast<int>(y.rows), cols = static_cast<int>(y.cols), inner = static_cast<int>(a.cols);
      accumulator_t<T> const one = 1, keep = accumulate ? 1 : 0;
      constexpr auto type = blas_type<A>::type;
      constexpr auto compute = std::is_same_v<A, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
      cublasStatus_t status;
      if (of_y.transposed) {
        status = cublasGemmEx(shared_->blas, operation(of_a), operation(of_b), rows, cols, inner, &one, a.data, type,
                              of_a.stride, b.data, type, of_b.stride, &keep, y.data, blas_type<T>::type, of_y.stride,
                              compute, CUBLAS_GEMM_DEFAULT);
      } else {
        status = cublasGemmEx(shared_->blas, operation(of_b), operation(of_a), cols, rows, inner, &one, b.data, type,
                              of_b.stride, a.data, type, of_a.stride, &keep, y.data, blas_type<T>::type, of_y.stride,
                              compute, CUBLAS_GEMM_DEFAULT);
      }
      check(status, "cuBLAS, ", y.rows, " x ", a.cols, " times ", a.cols, " x ", y.cols);
      return true;
    } else {
      return false;
    }
  }

  /// The host's memory may be reused at once, unless it is pinned. Not while the stream is recorded: a graph would copy
  /// whatever lies there when it is launched.
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
  static constexpr std::size_t least_workspace = std::size_t{1} << 20;  // partial sums of our own kernels fit

  struct resources {
    cudaStream_t stream;
    bool owns_stream;
    cublasHandle_t blas = nullptr;
    memory scratch;
    std::span<std::byte> workspace;
    int device = 0, processors = 0;
    std::string capability;

    resources(cudaStream_t given, bool own, std::span<std::byte> given_workspace)
        : stream(given), owns_stream(own), workspace(given_workspace) {
      int count = 0;
      check(cudaGetDeviceCount(&count), "no CUDA device");
      if (count == 0) fail("no CUDA device");
      check(cudaGetDevice(&device), "no CUDA device");
      int major = 0, minor = 0;
      check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "asking the CUDA device");
      check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking the CUDA device");
      check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "asking the CUDA device");
      capability = message(major, ".", minor);
      if (workspace.empty()) {
        scratch = memory(std::size_t{32} << 20);
        workspace = scratch.bytes();
      } else if (reinterpret_cast<std::uintptr_t>(workspace.data()) % 256 != 0) {
        fail("the workspace of a queue must lie at a multiple of 256 bytes");
      } else if (workspace.size() < least_workspace) {
        fail("the workspace of a queue has ", workspace.size(), " bytes, expected ", least_workspace, " or more");
      }
      if (owns_stream) check(cudaStreamCreate(&stream), "creating a CUDA stream");
      check(cublasCreate(&blas), "creating a cuBLAS handle");
      check(cublasSetStream(blas, stream), "cuBLAS");
      // After the stream: setting that returns the handle to memory of its own.
      check(cublasSetWorkspace(blas, workspace.data(), workspace.size()), "cuBLAS");
      // Partial sums of bfloat16 products stay floats.
      check(cublasSetMathMode(blas, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                              CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
            "cuBLAS");
    }
    resources(resources const&) = delete;
    resources& operator=(resources const&) = delete;
    ~resources() {
      if (blas != nullptr) cublasDestroy(blas);
      if (owns_stream && stream != nullptr) cudaStreamDestroy(stream);
    }
  };

  std::shared_ptr<resources> shared_;
};

}  // namespace cuda

/// GPUs from compute capability 8.0 on.
struct Sm80 {
  static constexpr bool host_memory = false;
  using memory = cuda::memory;
  using queue = cuda::stream_queue<Sm80>;

  // ---- where a thread is ----

  [[nodiscard]] __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  [[nodiscard]] __device__ int lane() const { return static_cast<int>(threadIdx.x & 31); }
  [[nodiscard]] __device__ int warp() const { return static_cast<int>(threadIdx.x >> 5); }
  [[nodiscard]] __device__ Index block() const { return blockIdx.x; }
  [[nodiscard]] __device__ Index blocks() const { return gridDim.x; }

  // ---- memory ----

  template <class T>
  using shared_pointer = T*;

  template <class T>
  [[nodiscard]] __device__ T load(T const* p) const {
    return *p;
  }
  template <class T>
  __device__ void store(T* p, std::type_identity_t<T> value) const {
    *p = value;
  }
  /// Of global or shared memory: the compiler knows which.
  template <class T>
  [[nodiscard]] __device__ words<4> load16(T const* p) const {
    uint4 const value = *reinterpret_cast<uint4 const*>(p);
    return {{value.x, value.y, value.z, value.w}};
  }
  template <class T>
  __device__ void store16(T* p, words<4> const& value) const {
    *reinterpret_cast<uint4*>(p) = make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
  }
  template <class T>
  [[nodiscard]] __device__ T* shared(int byte_offset) const {
    extern __shared__ __align__(128) unsigned char headmix_shared_memory[];
    return reinterpret_cast<T*>(headmix_shared_memory + byte_offset);
  }

  // ---- arithmetic ----

  [[nodiscard]] __device__ float exp2(float x) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  [[nodiscard]] __device__ float log2(float x) const {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }

  // ---- threads that meet ----

  __device__ void sync() const { __syncthreads(); }
  __device__ void sync_warp() const { __syncwarp(); }
  template <class T>
  [[nodiscard]] __device__ T shuffle_xor(T value, int mask) const {
    return exchange(value, [mask](auto word) { return __shfl_xor_sync(all_lanes, word, mask); });
  }
  template <class T>
  [[nodiscard]] __device__ T shuffle(T value, int lane) const {
    return exchange(value, [lane](auto word) { return __shfl_sync(all_lanes, word, lane); });
  }
  template <class T>
  [[nodiscard]] __device__ T shuffle_up(T value, int delta) const {
    return exchange(value,
                    [delta](auto word) { return __shfl_up_sync(all_lanes, word, static_cast<unsigned>(delta)); });
  }
  [[nodiscard]] __device__ std::uint32_t ballot(bool vote) const { return __ballot_sync(all_lanes, vote); }

  // ---- asynchronous copies ----

  template <class T>
  __device__ void copy_async16(T* to, T const* from, bool real) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(real ? 16 : 0)
                 : "memory");
  }
  __device__ void commit_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int n>
  __device__ void wait_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
  }

  // ---- matrices ----

  [[nodiscard]] __device__ words<4> load_matrices(bfloat16 const* row) const {
    words<4> m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  [[nodiscard]] __device__ words<4> load_matrices_transposed(bfloat16 const* row) const {
    words<4> m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  __device__ void multiply_add(float (&c)[4], words<4> const& a, words<2> const& b) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  }

 private:
  static constexpr unsigned all_lanes = 0xFFFFFFFFu;

  [[nodiscard]] static __device__ unsigned shared_address(void const* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }
  /// A shuffle of the bits of a value.
  template <class T, class Shuffle>
  [[nodiscard]] static __device__ T exchange(T const& value, Shuffle const& shuffle) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) <= 4 || sizeof(T) == 8));
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      return shuffle(value);
    } else if constexpr (sizeof(T) == 8) {
      return __builtin_bit_cast(T, shuffle(__builtin_bit_cast(unsigned long long, value)));
    } else if constexpr (sizeof(T) == 4) {
      return __builtin_bit_cast(T, shuffle(__builtin_bit_cast(unsigned, value)));
    } else if constexpr (sizeof(T) == 2) {
      unsigned const word = shuffle(static_cast<unsigned>(__builtin_bit_cast(unsigned short, value)));
      return __builtin_bit_cast(T, static_cast<unsigned short>(word));
    } else {
      unsigned const word = shuffle(static_cast<unsigned>(__builtin_bit_cast(unsigned char, value)));
      return __builtin_bit_cast(T, static_cast<unsigned char>(word));
    }
  }
};

/// Hopper. So far it does what Sm80 does.
struct Sm90a : Sm80 {
  using queue = cuda::stream_queue<Sm90a>;
};

}  // namespace headmix
