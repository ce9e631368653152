#pragma once
// SPDX-License-Identifier: MIT
// What a kernel of the Cuda backend is, and what it may ask of the device that runs it. Kernels are written once, over
// these functions: Sm80 and Sm90a (sm80.cuh) are CUDA and PTX, Emulated (emulated.hpp) runs the same source on the CPU.
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
// The functions of a device object, all for the thread that calls:
//
//   int thread(), lane(), warp()         its number in the block, in the warp, and its warp's number
//   Index block(), blocks()              one dimension only
//
//   T load(T const* p)                   of global memory. Trees and read-only operands may be read directly; what this
//   void store(T* p, T value)            launch writes may not: the emulator sees only these
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
//   T warp_exclusive_sum(T, T& total)    the sum over the lanes before this one, and over all; of integers. By CUB
//   void block_exclusive_sum<threads>(T (&values)[n])   the same in place over the block, whose threads have n values
//                                        each, one after another; all of them must call. A barrier, too. By CUB
//
//   void copy_async16(shared_pointer<T> to, T const* from, bool real)   cp.async, 16 bytes; zeros where not real
//   void commit_copies()                 closes a group of copies of this thread
//   void wait_copies<n>()                until at most the n latest groups of this thread are on their way; a barrier
//                                        must follow before other threads read them
//   words<4> load_matrices(shared_pointer<bfloat16> row)              ldmatrix.x4: lane l gives row l % 8 of matrix
//   words<4> load_matrices_transposed(shared_pointer<bfloat16> row)   l / 8; the latter is ldmatrix.x4.trans
//   void multiply_add(float (&c)[4], words<4> const& a, words<2> const& b)   mma.sync.m16n8k16, bfloat16, into float
//
// Devices with Hopper's instructions (Sm90a, EmulatedSm90a) have more, for kernels with `static constexpr bool
// warpgroups = true`. A warpgroup is 128 threads, and tiles lie in panels of 64 columns (warpgroup.hpp):
//
//   int warpgroup()                      its number
//   void sync_named<threads>(int)        bar.sync: barrier 1 to 15 of so many threads, orders their memory
//   void arrive_named<threads>(int)      bar.arrive: the same without waiting
//   void init_barrier(shared_pointer<std::uint64_t>, int arrivals)   mbarrier; a fence_async and a barrier of the block
//                                        must follow before others use it
//   void arrive(barrier)                 one arrival at the phase that is open
//   void arrive_expecting(barrier, int bytes)   and as many bytes of copies
//   void wait_barrier(barrier, int parity)      until the phase of this parity has ended; the one before the first has
//                                        parity 1 and has
//   void fence_async()                   fence.proxy.async: what this thread wrote, and what it knows that others
//                                        wrote, can be seen by copies and products; they come behind a barrier
//   void copy_tile(shared_pointer<bfloat16> to, tensor_map const&, int row, int col, barrier)   TMA, by one thread;
//                                        zeros outside of the matrix
//   matrix_descriptor describe(shared_pointer<bfloat16> tile, int leading, int stride)
//   void fence_products(registers&...)   wgmma.fence, with the sums and left operands that the next products use. All
//                                        128 threads call, as for everything below
//   void multiply_tiles(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add)
//                                        wgmma.m64nNk16, bfloat16: c (+)= a b^T, 64 x 8 n sums, rows of both along the
//                                        depth. A warp has 16 rows as multiply_add gives them
//   void multiply_across(float (&c)[n][4], words<4> const& or matrix_descriptor a, matrix_descriptor b, bool add)
//                                        c (+)= a b with a in registers or as above, rows of b across the depth
//   void multiply_both_across(float (&c)[n][4], matrix_descriptor a, matrix_descriptor b, bool add)
//                                        c (+)= a^T b, rows of both across the depth
//   void commit_products()               closes a group of products
//   void wait_products<n>(registers&...) until at most the n latest groups are on their way; these sums are there
//   void give_registers<n>(), take_registers<n>()   setmaxnreg: each thread has n from now on
//
// and kernels with `static constexpr int cluster = 2`, two blocks of which run together, neighbours, more:
//
//   int rank()                           the block's number in its cluster
//   void sync_cluster()                  barrier of all threads of the cluster, orders their memory, and what
//                                        init_barrier has made can be used by all. None may end while others still
//                                        arrive at its barriers or copy to it
//   void arrive_at(barrier, int rank)    arrive at the other block's barrier that lies where this one does
//   void copy_tile_to_all(to, tensor_map const&, int row, int col, barrier)   copy_tile to all blocks of the cluster:
//                                        the same place, and the bytes arrive at the same barrier, of each
//
// The host's side is `Device::queue`, a stream of work that cheap copies share:
//
//   void launch(kernel, Index blocks)    nothing for no blocks; returns at once, work runs in order
//   bool gemm(y, a, b, accumulate)       by the vendor's library; false if it does not do these types or strides. y and
//                                        b may be stacks, of as many matrices
//   std::span<std::byte> workspace()     scratch memory that every call may use until it returns to the next one
//   int processors()                     multiprocessors of the device
//   int shared_bytes()                   shared memory that a block of the device may have
//   void upload(void* device, void const* host, std::size_t bytes)
//   void download(void* host, void const* device, std::size_t bytes)   waits for the work before it
//   void synchronize()
//   bool warpgroups()                    with Hopper's instructions: whether the GPU, and the code for it, have them
//   tensor_map map_tensor(view<bfloat16 const>, int rows)   for tiles of so many rows and one panel
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

// Not `cuda`: CUDA has a namespace of that name, which the code that nvcc makes calls so.
namespace gpu {

template <class K>
concept Kernel = std::is_trivially_copyable_v<K> && requires {
  { K::threads } -> std::convertible_to<int>;
  { K::cooperative } -> std::convertible_to<bool>;
  { K::shared_bytes } -> std::convertible_to<int>;
};

/// Whether a kernel is one for warpgroups (warpgroup.hpp): it says so by `static constexpr bool warpgroups = true`.
template <class K>
inline constexpr bool for_warpgroups = false;
template <class K>
requires(K::warpgroups) inline constexpr bool for_warpgroups<K> = true;

/// Blocks that run together, which say so by `static constexpr int cluster`; a launch has a multiple of them.
template <class K>
inline constexpr int blocks_of_cluster = 1;
template <class K>
requires(K::cluster > 1) inline constexpr int blocks_of_cluster<K> = K::cluster;

/// Fails where a block of the device has less shared memory, in bytes, than the kernel takes.
template <class K>
void check_shared(int of_device) {
  if (K::shared_bytes > of_device) {
    fail(type_name<K>(), " takes ", K::shared_bytes, " bytes of shared memory, a block of this device has ", of_device);
  }
}

/// Blocks that cover n elements by so many each.
[[nodiscard]] HEADMIX_HD constexpr Index blocks_for(Index n, Index each) { return (n + each - 1) / each; }

/// How many bits of a ballot are set.
[[nodiscard]] HEADMIX_HD inline int count_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

// Rows of several segments (experts, sequences) are worked on in tiles of a fixed number of rows. Their lengths lie in
// device memory, so a launch has as many tiles as there could be, and those that are too many find nothing to do: the
// tiles of segment s begin at begin(s) / rows + s, which leaves room for every segment's last, partial tile.

/// A bound on the tiles of `count` segments with n rows in total.
[[nodiscard]] HEADMIX_HD constexpr Index tile_bound(Index n, Index count, Index rows) { return n / rows + count; }

/// The segment of tile t; its rows are begin(segment) + first_row_of_tile ... and may be none. begin(s) never falls.
template <class Begin>
[[nodiscard]] HEADMIX_DEVICE constexpr Index segment_of_tile(Index t, Index count, Index rows, Begin const& begin) {
  Index low = 0, high = count - 1;  // the last segment whose tiles begin at t or before
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
/// The same by the 32 lanes of a warp together, which look at 32 segments at once.
template <class Device, class Begin>
[[nodiscard]] HEADMIX_DEVICE Index segment_of_tile(Device& device, Index t, Index count, Index rows,
                                                   Begin const& begin) {
  Index low = 0;
  while (count > 1) {
    Index const step = (count + 31) / 32, ahead = device.lane() * step;
    bool const begun = ahead < count && begin(low + ahead) / rows + low + ahead <= t;
    int const last = count_bits(device.ballot(begun)) - 1;  // the first lanes, and lane 0 in any case
    low += last * step;
    count = count - last * step < step ? count - last * step : step;
  }
  return low;
}
/// The first row of tile t, counted from the beginning of its segment.
[[nodiscard]] HEADMIX_HD constexpr Index first_row_of_tile(Index t, Index segment, Index begin, Index rows) {
  return (t - (begin / rows + segment)) * rows;
}

}  // namespace gpu
}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
