#pragma once
// SPDX-License-Identifier: MIT
// The functions that a kernel may call on its device object (archetype::device, archetype::warpgroup_device) and a
// backend on its queue (archetype::queue), declared without a definition, and the concepts that ask for them. Sm80 and
// Sm90a (sm80.cuh, sm90.cuh) implement them by CUDA and PTX, Emulated and EmulatedSm90a (testing/emulated.hpp) on the
// CPU. device_conformance (testing/device_conformance.hpp) checks an implementation.

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

namespace archetype {

/// Owned, zeroed memory of a device at a multiple of 256 bytes; movable.
struct device_memory {
  device_memory();                                     ///< no bytes
  explicit device_memory(std::size_t bytes);           ///< zeros
  device_memory(device_memory&&) noexcept;             ///< leaves no bytes behind
  device_memory& operator=(device_memory&&) noexcept;  ///< may swap
  ~device_memory();
  [[nodiscard]] std::span<std::byte> bytes() const;  ///< all of it
  /// The memory from byte `offset` on, as a pointer to numbers.
  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const;
};

/// A stream, which copies of the object share. Launches, products and copies run in order.
struct queue {
  /// Asynchronous; does nothing for 0 blocks.
  template <cuda_kernels::Kernel K>
  void launch(K const& kernel, Index blocks) const;
  /// y (+)= a b by the vendor's library; false if it does not support the types or strides. y and b may be stacks of
  /// equally many matrices.
  template <class T, class A, class B>
  bool gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const;
  /// Scratch memory of one call, at a multiple of 256 bytes; later calls overwrite it.
  [[nodiscard]] std::span<std::byte> workspace() const;
  /// The multiprocessors of the device.
  [[nodiscard]] int processors() const;
  /// The largest shared memory of a block, in bytes.
  [[nodiscard]] int shared_bytes() const;
  /// The host memory may be reused at once.
  void upload(void* device, void const* host, std::size_t bytes) const;
  /// Waits for earlier work.
  void download(void* host, void const* device, std::size_t bytes) const;
  /// Waits for earlier work.
  void synchronize() const;
};

/// A thread of a block. All functions are for the calling thread.
struct device {
  using queue = archetype::queue;  ///< a stream
  using memory = device_memory;    ///< owned memory
  /// True if the host can read memory of the device.
  static constexpr bool host_memory = false;

  // ---- indices ----

  HEADMIX_DEVICE int thread();    ///< in the block
  HEADMIX_DEVICE int lane();      ///< in the warp
  HEADMIX_DEVICE int warp();      ///< in the block
  HEADMIX_DEVICE Index block();   ///< in the launch; one dimension
  HEADMIX_DEVICE Index blocks();  ///< of the launch

  // ---- global memory ----

  /// Memory that the launch writes may be read by load() and load16() alone: the emulator checks these functions. Trees
  /// and read-only operands may be read directly.
  template <class T>
  HEADMIX_DEVICE T load(T const* p);
  /// Writes global memory.
  template <class T>
  HEADMIX_DEVICE void store(T* p, std::type_identity_t<T> value);
  /// 16 bytes at a multiple of 16 bytes, of global or shared memory.
  template <class T>
  HEADMIX_DEVICE words<4> load16(T const* p);
  /// Writes 16 bytes at a multiple of 16 bytes, of global or shared memory.
  template <class T>
  HEADMIX_DEVICE void store16(T* p, words<4> const& value);

  // ---- arithmetic ----

  /// ex2.approx: 2^x, relative error about 2^-22.
  HEADMIX_DEVICE float exp2(float x);
  /// lg2.approx.
  HEADMIX_DEVICE float log2(float x);

  // ---- shared memory and barriers; kernels with `cooperative = true` ----

  /// A pointer to shared memory: supports *p, p[i], p + n, p += n, p - q and comparisons.
  template <class T>
  using shared_pointer = T*;
  /// Shared memory of the block from byte `byte_offset` on, uninitialised.
  template <class T>
  HEADMIX_DEVICE shared_pointer<T> shared(int byte_offset);
  /// Barrier of the block; orders its memory.
  HEADMIX_DEVICE void sync();
  /// Barrier of the warp; orders its memory.
  HEADMIX_DEVICE void sync_warp();

  // ---- functions of a warp: all 32 lanes call them ----

  /// The value of lane `lane() ^ mask`; of up to 4 bytes, or of 8.
  template <class T>
  HEADMIX_DEVICE T shuffle_xor(T value, int mask);
  /// The value of lane `from`.
  template <class T>
  HEADMIX_DEVICE T shuffle(T value, int from);
  /// Bit l is the vote of lane l.
  HEADMIX_DEVICE std::uint32_t ballot(bool vote);
  /// redux.sync.max.u32: the largest value of all lanes.
  HEADMIX_DEVICE std::uint32_t redux_max(std::uint32_t value);
  /// redux.sync.min.u32.
  HEADMIX_DEVICE std::uint32_t redux_min(std::uint32_t value);
  /// The integer sum over preceding lanes; total: over all lanes.
  template <class T>
  HEADMIX_DEVICE T warp_exclusive_sum(T value, T& total);
  /// Replaces each value by the integer sum over preceding values; a thread has n consecutive values. All threads of
  /// the block call it; it is also a barrier.
  template <int threads, class T, int n>
  HEADMIX_DEVICE void block_exclusive_sum(T (&values)[n]);

  // ---- asynchronous copies ----

  /// cp.async of 16 bytes; zeros if not `real`.
  template <class T>
  HEADMIX_DEVICE void cp_async16(T* to, T const* from, bool real);
  /// cp.async.commit_group: closes a group of copies of this thread.
  HEADMIX_DEVICE void cp_async_commit();
  /// cp.async.wait_group: waits until at most the n latest groups of this thread are in flight. Other threads may read
  /// the data after a further barrier.
  template <int n>
  HEADMIX_DEVICE void cp_async_wait();

  // ---- matrices; all 32 lanes call them ----

  /// ldmatrix.x4: lane l gives the address of row l % 8 of matrix l / 8.
  HEADMIX_DEVICE words<4> ldmatrix_x4(bfloat16 const* row);
  /// ldmatrix.x4.trans.
  HEADMIX_DEVICE words<4> ldmatrix_x4_trans(bfloat16 const* row);
  /// mma.sync.m16n8k16: c += a b, bfloat16 into float.
  HEADMIX_DEVICE void mma_m16n8k16(float (&c)[4], words<4> const& a, words<2> const& b);
};

/// A queue of GPUs with Hopper's instructions.
struct warpgroup_queue : queue {
  /// A matrix in global memory for TMA.
  struct tensor_map {};
  /// True if the GPU, and its code in the program, have these instructions.
  [[nodiscard]] bool warpgroups() const;
  /// A map of tiles of `rows` rows and one panel. Fails unless the address and the distance of rows are multiples of 16
  /// bytes.
  [[nodiscard]] tensor_map map_tensor(view<bfloat16 const> a, int rows,
                                      cuda_kernels::tile_swizzle swizzle = cuda_kernels::tile_swizzle::bytes_128) const;
};

/// A thread of a kernel with `static constexpr bool warpgroups = true`. A warpgroup is 128 threads; tiles are stored in
/// panels of 64 columns (warpgroup.hpp).
struct warpgroup_device : device {
  using queue = warpgroup_queue;                   ///< a stream
  using tensor_map = warpgroup_queue::tensor_map;  ///< a matrix for TMA
  using barrier = std::uint64_t*;                  ///< in shared memory

  HEADMIX_DEVICE int warpgroup();  ///< in the block

  // ---- barriers ----

  /// bar.sync of named barrier 1 to 15 by `threads` threads; orders their memory.
  template <int threads>
  HEADMIX_DEVICE void sync_named(int number);
  /// bar.arrive: arrives at a named barrier without waiting.
  template <int threads>
  HEADMIX_DEVICE void arrive_named(int number);
  /// mbarrier.init; a fence_proxy_async() and a barrier of the block must follow before other threads use it.
  HEADMIX_DEVICE void mbarrier_init(barrier b, int arrivals);
  /// mbarrier.arrive: one arrival at the current phase.
  HEADMIX_DEVICE void arrive(barrier b);
  /// mbarrier.arrive.expect_tx: an arrival, and `bytes` of pending copies.
  HEADMIX_DEVICE void arrive_expect_tx(barrier b, int bytes);
  /// mbarrier.try_wait until the phase of this parity has ended; the phase before the first has parity 1 and has ended.
  HEADMIX_DEVICE void mbarrier_wait(barrier b, int parity);
  /// fence.proxy.async: writes of this thread, and of threads that it has synchronised with, are visible to TMA and
  /// wgmma after the next barrier.
  HEADMIX_DEVICE void fence_proxy_async();

  // ---- TMA, by one thread ----

  /// A tile from global memory; zeros outside of the matrix. The bytes arrive at barrier b.
  HEADMIX_DEVICE void tma_load(bfloat16* to, tensor_map const& from, int row, int col, barrier b);
  /// A tile to all blocks of the cluster, at the offsets of `to` and b in each block.
  HEADMIX_DEVICE void tma_load_multicast(bfloat16* to, tensor_map const& from, int row, int col, barrier b);

  // ---- wgmma.m64nNk16, bfloat16 into float; all 128 threads of a warpgroup call them ----

  /// The descriptor of a tile in shared memory, see describe_matrix.
  HEADMIX_DEVICE cuda_kernels::matrix_descriptor describe(bfloat16 const* tile, int leading, int stride);
  /// wgmma.fence of the accumulators and left operands of the next products.
  template <class... Registers>
  HEADMIX_DEVICE void wgmma_fence(Registers&... used);
  /// c (+)= a b^T, 64 x 8 n accumulators, both operands K-major. A warp has 16 rows in the layout of mma_m16n8k16.
  template <int n>
  HEADMIX_DEVICE void wgmma_k_k(float (&c)[n][4], cuda_kernels::matrix_descriptor a, cuda_kernels::matrix_descriptor b,
                                bool add);
  /// c (+)= a b with a K-major and b MN-major.
  template <int n>
  HEADMIX_DEVICE void wgmma_k_mn(float (&c)[n][4], cuda_kernels::matrix_descriptor a, cuda_kernels::matrix_descriptor b,
                                 bool add);
  /// c (+)= a b with a in registers and b MN-major.
  template <int n>
  HEADMIX_DEVICE void wgmma_k_mn(float (&c)[n][4], words<4> const& a, cuda_kernels::matrix_descriptor b, bool add);
  /// c (+)= a^T b, both operands MN-major.
  template <int n>
  HEADMIX_DEVICE void wgmma_mn_mn(float (&c)[n][4], cuda_kernels::matrix_descriptor a,
                                  cuda_kernels::matrix_descriptor b, bool add);
  /// wgmma.commit_group.
  HEADMIX_DEVICE void wgmma_commit();
  /// wgmma.wait_group: waits until at most n groups are in flight; the accumulators given are then valid.
  template <int n, class... Registers>
  HEADMIX_DEVICE void wgmma_wait(Registers&... used);

  // ---- registers ----

  template <int n>
  HEADMIX_DEVICE void setmaxnreg_dec();  ///< setmaxnreg.dec: n registers for each thread of the warpgroup
  template <int n>
  HEADMIX_DEVICE void setmaxnreg_inc();  ///< setmaxnreg.inc

  // ---- kernels with `static constexpr int cluster = n`, at most 8: n neighbouring blocks run together ----

  HEADMIX_DEVICE int rank();  ///< of the block in the cluster
  /// Barrier of the cluster; orders its memory and publishes barriers of mbarrier_init. A block must not end while
  /// other blocks arrive at its barriers or copy to it.
  HEADMIX_DEVICE void sync_cluster();
  /// Arrives at the barrier at the offset of b in block `rank`.
  HEADMIX_DEVICE void arrive_at(barrier b, int rank);
  /// ld.shared::cluster.v4: 16 bytes at the offset of p, a multiple of 16, in the shared memory of block `rank`.
  template <class T>
  HEADMIX_DEVICE words<4> load16_at(shared_pointer<T> p, int rank);
};

}  // namespace archetype

/// The functions of archetype::queue.
template <class Q>
concept DeviceQueue = std::is_copy_constructible_v<Q> &&
    requires(Q const& q, view<float> y, view<float const> a, void* p, std::size_t n) {
  { q.gemm(y, a, a, true) } -> std::convertible_to<bool>;
  { q.workspace() } -> std::convertible_to<std::span<std::byte>>;
  { q.processors() } -> std::convertible_to<int>;
  { q.shared_bytes() } -> std::convertible_to<int>;
  q.upload(p, p, n);
  q.download(p, p, n);
  q.synchronize();
};

/// The functions of archetype::device.
template <class D>
concept DevicePolicy = DeviceQueue<typename D::queue> && std::is_move_assignable_v<typename D::memory> &&
    requires(D& d, float* p, words<4> w, words<2> v, std::int32_t i, std::int32_t (&values)[4], float (&c)[4],
             typename D::memory const& memory, typename D::template shared_pointer<float> s,
             typename D::template shared_pointer<bfloat16> row) {
  { D::host_memory } -> std::convertible_to<bool>;
  { memory.bytes() } -> std::convertible_to<std::span<std::byte>>;
  { memory.template as<float>(std::size_t{0}) } -> std::same_as<float*>;
  { d.thread() } -> std::convertible_to<int>;
  { d.lane() } -> std::convertible_to<int>;
  { d.warp() } -> std::convertible_to<int>;
  { d.block() } -> std::convertible_to<Index>;
  { d.blocks() } -> std::convertible_to<Index>;
  { d.load(p) } -> std::convertible_to<float>;
  d.store(p, 1.f);
  { d.load16(p) } -> std::convertible_to<words<4>>;
  d.store16(p, w);
  { d.exp2(1.f) } -> std::convertible_to<float>;
  { d.log2(1.f) } -> std::convertible_to<float>;
  { d.template shared<float>(0) } -> std::convertible_to<typename D::template shared_pointer<float>>;
  { d.load16(s) } -> std::convertible_to<words<4>>;
  d.store16(s, w);
  d.sync();
  d.sync_warp();
  { d.shuffle_xor(i, 1) } -> std::convertible_to<std::int32_t>;
  { d.shuffle(i, 1) } -> std::convertible_to<std::int32_t>;
  { d.ballot(true) } -> std::convertible_to<std::uint32_t>;
  { d.redux_max(1u) } -> std::convertible_to<std::uint32_t>;
  { d.redux_min(1u) } -> std::convertible_to<std::uint32_t>;
  { d.warp_exclusive_sum(i, i) } -> std::convertible_to<std::int32_t>;
  d.template block_exclusive_sum<128>(values);
  d.cp_async16(s, p, true);
  d.cp_async_commit();
  d.template cp_async_wait<0>();
  { d.ldmatrix_x4(row) } -> std::convertible_to<words<4>>;
  { d.ldmatrix_x4_trans(row) } -> std::convertible_to<words<4>>;
  d.mma_m16n8k16(c, w, v);
};

/// The functions of archetype::warpgroup_device.
template <class D>
concept WarpgroupDevice = DevicePolicy<D> && cuda_kernels::WarpgroupQueue<typename D::queue> &&
    requires(D& d, typename D::queue const& q, view<bfloat16 const> a, typename D::tensor_map const& map,
             typename D::template shared_pointer<std::uint64_t> b, typename D::template shared_pointer<bfloat16> tile,
             float (&c)[8][4], words<4> w, cuda_kernels::matrix_descriptor m) {
  { q.warpgroups() } -> std::convertible_to<bool>;
  { q.map_tensor(a, 64) } -> std::convertible_to<typename D::tensor_map>;
  { d.warpgroup() } -> std::convertible_to<int>;
  d.template sync_named<128>(1);
  d.template arrive_named<128>(1);
  d.mbarrier_init(b, 1);
  d.arrive(b);
  d.arrive_expect_tx(b, 16);
  d.mbarrier_wait(b, 0);
  d.fence_proxy_async();
  d.tma_load(tile, map, 0, 0, b);
  d.tma_load_multicast(tile, map, 0, 0, b);
  { d.describe(tile, 16, 1024) } -> std::convertible_to<cuda_kernels::matrix_descriptor>;
  d.wgmma_fence(c);
  d.wgmma_k_k(c, m, m, true);
  d.wgmma_k_mn(c, m, m, true);
  d.wgmma_k_mn(c, w, m, true);
  d.wgmma_mn_mn(c, m, m, true);
  d.wgmma_commit();
  d.template wgmma_wait<0>(c);
  d.template setmaxnreg_dec<40>();
  d.template setmaxnreg_inc<232>();
  { d.rank() } -> std::convertible_to<int>;
  d.sync_cluster();
  d.arrive_at(b, 0);
  { d.load16_at(tile, 0) } -> std::convertible_to<words<4>>;
};

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
