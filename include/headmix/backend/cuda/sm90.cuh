#pragma once
// SPDX-License-Identifier: MIT
// Sm90a: Hopper, with mbarriers, TMA copies of tiles and warpgroup MMAs (wgmma). For nvcc; the architecture is sm_90a.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/sm80.cuh"
#include "headmix/backend/cuda/warpgroup.hpp"

/// 1: Sm90a uses warpgroup kernels where they exist. 0: it uses Sm80's kernels, for comparison.
#ifndef HEADMIX_CUDA_WARPGROUPS
#define HEADMIX_CUDA_WARPGROUPS 1
#endif

namespace headmix {

namespace cuda_kernels {

/// A matrix of which TMA copies tiles.
struct tensor_map {
  CUtensorMap map;  ///< the hardware requires alignment to 64 bytes
};

/// Detects whether the running code was compiled for sm_90a: only then it has static shared memory, 4 KiB.
template <class Build>
__global__ void code_of_warpgroups() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ int mark[1024];
  mark[threadIdx.x % 1024] = 1;
  asm volatile("" ::"r"(mark[(threadIdx.x + 1) % 1024]) : "memory");
#endif
}

/// A stream that can launch warpgroup kernels besides all others.
template <class Device>
class warpgroup_queue : public stream_queue<Device> {
 public:
  using tensor_map = cuda_kernels::tensor_map;

  warpgroup_queue() : warpgroups_(has_warpgroups()) {}
  explicit warpgroup_queue(cudaStream_t stream, std::span<std::byte> workspace = {}, cublasHandle_t blas = nullptr)
      : stream_queue<Device>(stream, workspace, blas), warpgroups_(has_warpgroups()) {}

  /// True if the device and the code for it have Hopper's instructions.
  [[nodiscard]] bool warpgroups() const { return warpgroups_; }

  /// A tensor map for tiles of `rows` rows and one panel of columns of a matrix, whose address and, in bytes, row
  /// stride are multiples of 16. Elements outside of the matrix are 0.
  [[nodiscard]] tensor_map map_tensor(view<bfloat16 const> a, int rows,
                                      tile_swizzle swizzle = tile_swizzle::bytes_128) const {
    static encode* const make = find_encode();
    cuuint64_t const extents[] = {static_cast<cuuint64_t>(a.cols), static_cast<cuuint64_t>(a.rows)};
    cuuint64_t const strides[] = {static_cast<cuuint64_t>(a.row_stride) * sizeof(bfloat16)};  // of all but the first
    cuuint32_t const box[] = {panel_columns, static_cast<cuuint32_t>(rows)}, steps[] = {1, 1};
    cuda_kernels::tensor_map result;
    CUresult const status =
        make(&result.map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bfloat16*>(a.data), extents, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle == tile_swizzle::none ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
      fail("cuTensorMapEncodeTiled refuses a matrix of ", a.rows, " x ", a.cols, " with ", a.row_stride,
           " numbers from row to row, in tiles of ", rows, " rows (CUresult ", static_cast<int>(status), ")");
    }
    return result;
  }

 private:
  using encode = CUresult(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
                          cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  /// The driver's entry point, found at run time: the library does not link to the driver.
  static encode* find_encode() {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found),
          "asking the driver for cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess || entry == nullptr) fail("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<encode*>(entry);
  }
  static bool has_warpgroups() {
    int device = 0, major = 0;
    check(cudaGetDevice(&device), "no CUDA device");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking the CUDA device");
    if (major != 9) return false;
    cudaFuncAttributes code = {};
    if (cudaFuncGetAttributes(&code, code_of_warpgroups<this_build>) == cudaSuccess)
      return code.sharedSizeBytes >= 4096;
    static_cast<void>(cudaGetLastError());
    return false;
  }

  bool warpgroups_;
};

/// Four accumulators as instruction operands.
#define HEADMIX_SUMS(c, j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])

/// Hopper. @tparam kernels_for_warpgroups  use warpgroup kernels where they exist
template <class Build, bool kernels_for_warpgroups>
struct sm90a : sm80<Build> {
  using queue = std::conditional_t<kernels_for_warpgroups, warpgroup_queue<sm90a>, stream_queue<sm90a>>;
  using tensor_map = cuda_kernels::tensor_map;
  using shared_barrier = std::uint64_t*;

  /// Shared memory; tiles of wgmma operands begin at multiples of 1,024 bytes.
  template <class T>
  [[nodiscard]] __device__ T* shared(int byte_offset) const {
    extern __shared__ __align__(1024) unsigned char headmix_aligned_shared_memory[];
    return reinterpret_cast<T*>(headmix_aligned_shared_memory + byte_offset);
  }
  /// Broadcast from one lane, so that the compiler knows that it is uniform: derived values, such as a tile's address,
  /// are then computed once per warp.
  [[nodiscard]] __device__ int warpgroup() const {
    return __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x / warpgroup_threads), 0);
  }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
  // ---- clusters ----

  [[nodiscard]] __device__ int rank() const {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
  }
  __device__ void sync_cluster() const {
    asm volatile(
        "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.release.aligned; "
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
  }

  template <class T>
  [[nodiscard]] __device__ words<4> load16_at(T const* p, int rank) const {
    words<4> w;
    asm volatile(
        "{.reg .b32 there; mapa.shared::cluster.u32 there, %4, %5; ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, "
        "[there];}"
        : "=r"(w.word[0]), "=r"(w.word[1]), "=r"(w.word[2]), "=r"(w.word[3])
        : "r"(this->shared_address(p)), "r"(rank)
        : "memory");
    return w;
  }

  // ---- barriers ----

  template <int threads>
  __device__ void sync_named(int barrier) const {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
  }
  template <int threads>
  __device__ void arrive_named(int barrier) const {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(threads) : "memory");
  }
  __device__ void mbarrier_init(std::uint64_t* barrier, int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(this->shared_address(barrier)), "r"(arrivals)
                 : "memory");
  }
  __device__ void arrive(std::uint64_t* barrier) const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(this->shared_address(barrier)) : "memory");
  }
  __device__ void arrive_at(std::uint64_t* barrier, int rank) const {
    asm volatile(
        "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there];}" ::
            "r"(this->shared_address(barrier)),
        "r"(rank)
        : "memory");
  }
  __device__ void arrive_expect_tx(std::uint64_t* barrier, int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(this->shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void mbarrier_wait(std::uint64_t* barrier, int parity) const {
    unsigned const address = this->shared_address(barrier);
    int done;
    do {
      asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(address), "r"(parity)
                   : "memory");
    } while (done == 0);
  }
  __device__ void fence_proxy_async() const { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

  // ---- copies ----

  __device__ void tma_load(bfloat16* to, cuda_kernels::tensor_map const& from, int row, int col,
                           std::uint64_t* barrier) const {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(this->shared_address(to)),
        "l"(&from.map), "r"(col), "r"(row), "r"(this->shared_address(barrier))
        : "memory");
  }

  __device__ void tma_load_multicast(bfloat16* to, cuda_kernels::tensor_map const& from, int row, int col,
                                     std::uint64_t* barrier) const {
    asm volatile(
        "{.reg .b32 blocks; .reg .b16 mask; mov.u32 blocks, %%cluster_nctarank; shl.b32 blocks, 1, blocks; "
        "sub.u32 blocks, blocks, 1; cvt.u16.u32 mask, blocks; "
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%2, %3}], [%4], mask;}" ::"r"(this->shared_address(to)),
        "l"(&from.map), "r"(col), "r"(row), "r"(this->shared_address(barrier))
        : "memory");
  }

  // ---- products ----

  [[nodiscard]] __device__ matrix_descriptor describe(bfloat16 const* tile, int leading, int stride) const {
    return describe_matrix(this->shared_address(tile), leading, stride);
  }
  template <class... Registers>
  __device__ void wgmma_fence(Registers&... used) const {
    (pin(used), ...);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  }
  template <int n>
  __device__ void wgmma_k_k(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add) const {
    product<false>(c, a, b, add);
  }
  template <int n>
  __device__ void wgmma_k_mn(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add) const {
    product<true>(c, a, b, add);
  }
  template <int n>
  __device__ void wgmma_mn_mn(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add) const {
    product<true, true>(c, a, b, add);
  }
  template <int n>
  __device__ void wgmma_k_mn(float (&c)[n][4], words<4> const& a, matrix_descriptor b, bool add) const {
    product<true>(c, a, b, add);
  }
  __device__ void wgmma_commit() const { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  template <int latest, class... Registers>
  __device__ void wgmma_wait(Registers&... used) const {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(latest) : "memory");
    (pin(used), ...);
  }

  // ---- registers ----

  template <int n>
  __device__ void setmaxnreg_dec() const {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n));
  }
  template <int n>
  __device__ void setmaxnreg_inc() const {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n));
  }

 private:
  /// The compiler moves no use of the registers across this.
  template <int n>
  static __device__ void pin(float (&c)[n][4]) {
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) asm volatile("" : HEADMIX_SUMS(c, j)::"memory");
  }
  template <int n>
  static __device__ void pin(words<4> (&a)[n]) {
    HEADMIX_UNROLL
    for (int k = 0; k < n; ++k) {
      asm volatile("" : "+r"(a[k].word[0]), "+r"(a[k].word[1]), "+r"(a[k].word[2]), "+r"(a[k].word[3])::"memory");
    }
  }
  template <bool b_mn_major, bool a_mn_major = false>
  static __device__ void product(float (&c)[8][4], matrix_descriptor a, matrix_descriptor b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, %36, %35;}"
        : HEADMIX_SUMS(c, 0), HEADMIX_SUMS(c, 1), HEADMIX_SUMS(c, 2), HEADMIX_SUMS(c, 3), HEADMIX_SUMS(c, 4),
          HEADMIX_SUMS(c, 5), HEADMIX_SUMS(c, 6), HEADMIX_SUMS(c, 7)
        : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(add)), "n"(b_mn_major ? 1 : 0), "n"(a_mn_major ? 1 : 0));
  }
  template <bool b_mn_major>
  static __device__ void product(float (&c)[8][4], words<4> const& a, matrix_descriptor b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %37, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, %38;}"
        : HEADMIX_SUMS(c, 0), HEADMIX_SUMS(c, 1), HEADMIX_SUMS(c, 2), HEADMIX_SUMS(c, 3), HEADMIX_SUMS(c, 4),
          HEADMIX_SUMS(c, 5), HEADMIX_SUMS(c, 6), HEADMIX_SUMS(c, 7)
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.bits), "r"(static_cast<int>(add)),
          "n"(b_mn_major ? 1 : 0));
  }
  template <bool b_mn_major, bool a_mn_major = false>
  static __device__ void product(float (&c)[16][4], matrix_descriptor a, matrix_descriptor b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, %68, %67;}"
        : HEADMIX_SUMS(c, 0), HEADMIX_SUMS(c, 1), HEADMIX_SUMS(c, 2), HEADMIX_SUMS(c, 3), HEADMIX_SUMS(c, 4),
          HEADMIX_SUMS(c, 5), HEADMIX_SUMS(c, 6), HEADMIX_SUMS(c, 7), HEADMIX_SUMS(c, 8), HEADMIX_SUMS(c, 9),
          HEADMIX_SUMS(c, 10), HEADMIX_SUMS(c, 11), HEADMIX_SUMS(c, 12), HEADMIX_SUMS(c, 13), HEADMIX_SUMS(c, 14),
          HEADMIX_SUMS(c, 15)
        : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(add)), "n"(b_mn_major ? 1 : 0), "n"(a_mn_major ? 1 : 0));
  }
  template <bool b_mn_major>
  static __device__ void product(float (&c)[16][4], words<4> const& a, matrix_descriptor b, bool add) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %69, 0; "
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, %70;}"
        : HEADMIX_SUMS(c, 0), HEADMIX_SUMS(c, 1), HEADMIX_SUMS(c, 2), HEADMIX_SUMS(c, 3), HEADMIX_SUMS(c, 4),
          HEADMIX_SUMS(c, 5), HEADMIX_SUMS(c, 6), HEADMIX_SUMS(c, 7), HEADMIX_SUMS(c, 8), HEADMIX_SUMS(c, 9),
          HEADMIX_SUMS(c, 10), HEADMIX_SUMS(c, 11), HEADMIX_SUMS(c, 12), HEADMIX_SUMS(c, 13), HEADMIX_SUMS(c, 14),
          HEADMIX_SUMS(c, 15)
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "l"(b.bits), "r"(static_cast<int>(add)),
          "n"(b_mn_major ? 1 : 0));
  }
#endif
};
#undef HEADMIX_SUMS

}  // namespace cuda_kernels

/// Hopper devices.
using Sm90a = cuda_kernels::sm90a<cuda_kernels::this_build, HEADMIX_CUDA_WARPGROUPS != 0>;

}  // namespace headmix
