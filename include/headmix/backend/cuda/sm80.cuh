#pragma once
// SPDX-License-Identifier: MIT
// Sm80: the functions of device.hpp as CUDA and PTX, and the base of Sm90a (sm90.cuh). For nvcc.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "headmix needs compute capability 8.0 or newer: set CMAKE_CUDA_ARCHITECTURES (or -arch) to 80 or more"
#endif

#include <cuda_runtime.h>

#include <cstdint>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/stream.cuh"
#include "headmix/core/scalar.hpp"
#include "headmix/core/version.hpp"

namespace headmix {

namespace cuda_kernels {

/// The library's version and the architectures of this unit, part of the names of all kernels and of their launchers:
/// otherwise the linker would mix kernels of units for other architectures or versions in one program.
template <int Version, int... Architectures>
struct build {};
#ifdef __CUDA_ARCH_LIST__
using this_build = build<HEADMIX_VERSION, __CUDA_ARCH_LIST__>;
#else
using this_build = build<HEADMIX_VERSION>;
#endif

/// Devices from compute capability 8.0 on.
template <class Build>
struct sm80 {
  static constexpr bool host_memory = false;
  using memory = cuda_kernels::memory;
  using queue = stream_queue<sm80>;

  // ---- thread indices ----

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
  /// Loads from global or shared memory, which the compiler distinguishes.
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

  // ---- barriers and warp functions ----

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
  [[nodiscard]] __device__ std::uint32_t ballot(bool vote) const { return __ballot_sync(all_lanes, vote); }
  [[nodiscard]] __device__ std::uint32_t redux_max(std::uint32_t value) const {
    return __reduce_max_sync(all_lanes, value);
  }
  [[nodiscard]] __device__ std::uint32_t redux_min(std::uint32_t value) const {
    return __reduce_min_sync(all_lanes, value);
  }
  template <class T>
  [[nodiscard]] __device__ T warp_exclusive_sum(T value, T& total) const {
    using scan = CUB_NS_QUALIFIER::WarpScan<T>;
    __shared__ typename scan::TempStorage storage[32];  // shuffles need none: it is optimised away
    scan(storage[warp()]).ExclusiveSum(value, value, total);
    return value;
  }
  template <int threads, class T, int n>
  __device__ void block_exclusive_sum(T (&values)[n]) const {
    using scan = CUB_NS_QUALIFIER::BlockScan<T, threads, CUB_NS_QUALIFIER::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename scan::TempStorage storage;
    scan(storage).ExclusiveSum(values, values);
    sync();
  }

  // ---- asynchronous copies ----

  template <class T>
  __device__ void cp_async16(T* to, T const* from, bool valid) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
  }
  __device__ void cp_async_commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int n>
  __device__ void cp_async_wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
  }

  // ---- matrices ----

  [[nodiscard]] __device__ words<4> ldmatrix_x4(bfloat16 const* row) const {
    words<4> m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  [[nodiscard]] __device__ words<4> ldmatrix_x4_trans(bfloat16 const* row) const {
    words<4> m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.word[0]), "=r"(m.word[1]), "=r"(m.word[2]), "=r"(m.word[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  __device__ void mma_m16n8k16(float (&c)[4], words<4> const& a, words<2> const& b) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
  }

 protected:
  [[nodiscard]] static __device__ unsigned shared_address(void const* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  }

 private:
  static constexpr unsigned all_lanes = 0xFFFFFFFFu;

  /// A shuffle of the bits of a value.
  template <class T, class Shuffle>
  [[nodiscard]] static __device__ T exchange(T const& value, Shuffle const& shuffle) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) <= 4 || sizeof(T) == 8),
                  "headmix: lanes exchange values of up to 4 bytes, or of 8, that are copied as bits");
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

}  // namespace cuda_kernels

/// Devices from compute capability 8.0 on.
using Sm80 = cuda_kernels::sm80<cuda_kernels::this_build>;

}  // namespace headmix

#include "headmix/backend/cuda/sm90.cuh"
