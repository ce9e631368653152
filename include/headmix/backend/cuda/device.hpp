#pragma once
// SPDX-License-Identifier: MIT
// The kernels of the Cuda backend and the device functions that they may call. Kernels are written once, in terms of
// these functions: Sm80 and Sm90a (sm80.cuh) implement them by CUDA and PTX, Emulated (emulated.hpp) runs the same
// source on the CPU.
//
// A kernel is a trivially copyable struct whose members are its operands:
//
//   struct double_all {
//     static constexpr int threads = 128;         // of a block, a multiple of 32
//     static constexpr bool cooperative = false;  // true: its threads meet (anything below from `shared` on)
//     static constexpr int shared_bytes = 0;      // of a block
//     view<float> y;
//     static Index blocks(Index n);               // by convention: how many blocks to launch
//     template <class Device>
//     HEADMIX_DEVICE void operator()(Device& device) const {
//       Index const i = device.block() * threads + device.thread();
//       if (i < y.cols) device.store(&y(0, i), 2 * device.load(&y(0, i)));
//     }
//   };
//   queue.launch(double_all{y}, blocks);
//
// The functions of a device object, all for the calling thread:
//
//   int thread(), lane(), warp()         thread index in the block, lane index in the warp, warp index in the block
//   Index block(), blocks()              block index and number of blocks; one dimension only
//
//   T load(T const* p)                   global memory. Trees and read-only operands may be read directly; memory that
//   void store(T* p, T value)            the launch writes may not: the emulator checks only these functions
//   words<4> load16(T const* p)          16 bytes at an address that is a multiple of 16
//   void store16(T* p, words<4>)
//   float exp2(float), log2(float)       the hardware's approximations, relative error about 2^-22
//
//   shared_pointer<T> shared<T>(int byte_offset)   shared memory; uninitialised. Supports p[i], *p, p + i, p += i
//   words<4> load16(shared_pointer<T>), void store16(shared_pointer<T>, words<4>)
//   void sync()                          barrier of the block, orders its memory
//   void sync_warp()                     barrier of the warp, orders its memory
//   T shuffle_xor(T, int mask)           all 32 lanes of the warp must call, as for everything below
//   T shuffle(T, int lane)
//   std::uint32_t ballot(bool)
//   T warp_exclusive_sum(T, T& total)    integer sums over the preceding lanes, and over all lanes. By CUB
//   void block_exclusive_sum<threads>(T (&values)[n])   exclusive sum in place over the block, whose threads have n
//                                        consecutive values each; all threads must call. Also a barrier. By CUB
//
//   void cp_async16(shared_pointer<T> to, T const* from, bool valid)   cp.async, 16 bytes; zeros if not valid
//   void cp_async_commit()               cp.async.commit_group: closes a group of copies of this thread
//   void cp_async_wait<n>()              cp.async.wait_group: until at most the n latest groups of this thread are in
//                                        flight; a barrier must follow before other threads read the data
//   words<4> ldmatrix_x4(shared_pointer<bfloat16> row)         ldmatrix.x4: lane l gives row l % 8 of matrix l / 8
//   words<4> ldmatrix_x4_trans(shared_pointer<bfloat16> row)   ldmatrix.x4.trans
//   void mma_m16n8k16(float (&c)[4], words<4> const& a, words<2> const& b)   mma.sync, bfloat16, into float
//
// Further functions of devices with Hopper's instructions (Sm90a, EmulatedSm90a), for kernels with `static constexpr
// bool warpgroups = true`. A warpgroup is 128 threads, and tiles are stored in panels of 64 columns (warpgroup.hpp):
//
//   int warpgroup()                      warpgroup index in the block
//   void sync_named<threads>(int)        bar.sync: named barrier 1 to 15 of `threads` threads, orders their memory
//   void arrive_named<threads>(int)      bar.arrive: arrival at a named barrier without waiting
//   void mbarrier_init(shared_pointer<std::uint64_t>, int arrivals)   mbarrier.init; a fence_proxy_async and a barrier
//   of
//                                        the block must follow before other threads use it
//   void arrive(barrier)                 mbarrier.arrive: one arrival at the current phase
//   void arrive_expect_tx(barrier, int bytes)   mbarrier.arrive.expect_tx: an arrival, and `bytes` of pending copies
//   void mbarrier_wait(barrier, int parity)     mbarrier.try_wait until the phase of this parity has ended; the one
//                                        before the first has parity 1 and counts as ended
//   void fence_proxy_async()             fence.proxy.async: writes of this thread, and writes of others that it has
//                                        synchronised with, become visible to TMA and wgmma after the next barrier
//   void tma_load(shared_pointer<bfloat16> to, tensor_map const&, int row, int col, barrier)   TMA, by one thread;
//                                        zeros outside of the matrix
//   matrix_descriptor describe(shared_pointer<bfloat16> tile, int leading, int stride)   see describe_matrix
//   void wgmma_fence(registers&...)      wgmma.fence for the accumulators and left operands of the next MMAs. All 128
//                                        threads must call, as for everything below
//   void wgmma_k_k(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add)
//                                        wgmma.m64nNk16, bfloat16: c (+)= a b^T, 64 x 8 n accumulators, both operands
//                                        K-major. A warp has 16 rows in the layout of mma_m16n8k16
//   void wgmma_k_mn(float (&c)[n][4], words<4> const& or matrix_descriptor a, matrix_descriptor b, bool add)
//                                        c (+)= a b with a in registers or K-major, b MN-major
//   void wgmma_mn_mn(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add)
//                                        c (+)= a^T b, both operands MN-major
//   void wgmma_commit()                  wgmma.commit_group
//   void wgmma_wait<n>(registers&...)    wgmma.wait_group: until at most the n latest groups are in flight; these
//                                        accumulators are then valid
//   void setmaxnreg_dec<n>(), setmaxnreg_inc<n>()   setmaxnreg: n registers for each thread
//
// and for kernels with `static constexpr int cluster = 2`, where two neighbouring blocks run together:
//
//   int rank()                           block index in the cluster
//   void sync_cluster()                  barrier of all threads of the cluster, orders their memory and publishes
//                                        barriers of mbarrier_init. A block may not end while others still arrive at
//                                        its barriers or copy to it
//   void arrive_at(barrier, int rank)    arrival at the corresponding barrier of block `rank`
//   void tma_load_multicast(to, tensor_map const&, int row, int col, barrier)   TMA multicast to all blocks of the
//                                        cluster: the same offset of `to` and of the barrier in each block
//
// The host's side is `Device::queue`, a stream that copies of the object share:
//
//   void launch(kernel, Index blocks)    no-op for 0 blocks; asynchronous, in order
//   bool gemm(y, a, b, accumulate)       by the vendor's library; false if it does not support the types or strides. y
//                                        and b may be stacks of equally many matrices
//   std::span<std::byte> workspace()     scratch memory for use within one call; later calls overwrite it
//   int processors()                     multiprocessors of the device
//   int shared_bytes()                   largest shared memory of a block of the device
//   void upload(void* device, void const* host, std::size_t bytes)
//   void download(void* host, void const* device, std::size_t bytes)   waits for earlier work
//   void synchronize()
//   bool warpgroups()                    Hopper devices: true if the GPU and the code for it have these instructions
//   tensor_map map_tensor(view<bfloat16 const>, int rows)   for tiles of `rows` rows and one panel
//
// and `Device::memory`: owned, zeroed memory of the device like AlignedBuffer (bytes(), as<T>(offset)).
// `Device::host_memory` says whether the host may read it.

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "headmix/core/config.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"

// HEADMIX_UNROLL stands before a loop whose trip count the compiler knows and whose body indexes registers,
// HEADMIX_NO_UNROLL before one whose copies would need registers that there are not.
#ifdef __CUDACC__
#define HEADMIX_DEVICE __device__
#define HEADMIX_UNROLL _Pragma("unroll")
#define HEADMIX_NO_UNROLL _Pragma("unroll 1")
#else
#define HEADMIX_DEVICE
#define HEADMIX_UNROLL
#define HEADMIX_NO_UNROLL
#endif

HEADMIX_QUIET_BOUNDS

namespace headmix {

/// n registers of 32 bits, as the matrix instructions want them: two bfloat16 each, the first in the low half.
template <int n>
struct words {
  /// The registers.
  std::uint32_t word[n];
};

// Not `cuda`: code generated by nvcc refers to CUDA's namespace of that name. Not `gpu`: a short word belongs to users.
namespace cuda_kernels {

template <class K>
concept Kernel = std::is_trivially_copyable_v<K> && requires {
  { K::threads } -> std::convertible_to<int>;
  { K::cooperative } -> std::convertible_to<bool>;
  { K::shared_bytes } -> std::convertible_to<int>;
};

/// True for warpgroup kernels (warpgroup.hpp), which declare `static constexpr bool warpgroups = true`.
template <class K>
inline constexpr bool for_warpgroups = false;
template <class K>
requires(K::warpgroups) inline constexpr bool for_warpgroups<K> = true;

/// The number of blocks of a kernel's cluster, `static constexpr int cluster`; a launch has a multiple of it.
template <class K>
inline constexpr int blocks_of_cluster = 1;
template <class K>
requires(K::cluster > 1) inline constexpr int blocks_of_cluster<K> = K::cluster;

/// An error if a block of the device has less shared memory, in bytes, than the kernel needs.
template <class K>
void check_shared(int of_device) {
  if (K::shared_bytes > of_device) {
    fail(type_name<K>(), " takes ", K::shared_bytes, " bytes of shared memory, a block of this device has ", of_device);
  }
}

/// The number of blocks that cover n elements, `each` elements per block.
[[nodiscard]] HEADMIX_HD constexpr Index blocks_for(Index n, Index each) { return (n + each - 1) / each; }

/// The number of set bits of a ballot.
[[nodiscard]] HEADMIX_HD inline int count_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

// Rows of several segments (experts, sequences) are processed in tiles of a fixed number of rows. The lengths of
// segments are in device memory, so a launch has the largest possible number of tiles, and surplus tiles are empty: the
// tiles of segment s begin at begin(s) / rows + s, which leaves room for every segment's last, partial tile.

/// An upper bound of the number of tiles of `count` segments with n rows in total.
[[nodiscard]] HEADMIX_HD constexpr Index tile_bound(Index n, Index count, Index rows) { return n / rows + count; }

/// The segment of tile t; its rows are begin(segment) + first_row_of_tile ... and may be none. begin(s) must not
/// decrease.
template <class Begin>
[[nodiscard]] HEADMIX_DEVICE constexpr Index segment_of_tile(Index t, Index count, Index rows, Begin const& begin) {
  Index low = 0, high = count - 1;  // the last segment whose first tile is at or before t
  while (low < high) {
    Index const middle = (low + high + 1) / 2;
    if (begin(middle) / rows + middle <= t) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}
/// segment_of_tile by the 32 lanes of a warp together, which test 32 segments at a time.
template <class Device, class Begin>
[[nodiscard]] HEADMIX_DEVICE Index segment_of_tile(Device& device, Index t, Index count, Index rows,
                                                   Begin const& begin) {
  Index low = 0;
  while (count > 1) {
    Index const step = (count + 31) / 32, ahead = device.lane() * step;
    bool const begun = ahead < count && begin(low + ahead) / rows + low + ahead <= t;
    int const last = count_bits(device.ballot(begun)) - 1;  // the first lanes, and always lane 0
    low += last * step;
    count = count - last * step < step ? count - last * step : step;
  }
  return low;
}
/// The first row of tile t, relative to its segment.
[[nodiscard]] HEADMIX_HD constexpr Index first_row_of_tile(Index t, Index segment, Index begin, Index rows) {
  return (t - (begin / rows + segment)) * rows;
}

}  // namespace cuda_kernels
}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
