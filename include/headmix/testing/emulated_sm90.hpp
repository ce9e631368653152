#pragma once
// SPDX-License-Identifier: MIT
// EmulatedSm90a: Emulated plus the Hopper functions of Sm90a (warpgroup.hpp), for warpgroup kernels. The checks are in
// emulator/barriers.hpp, tile_copies.hpp and products.hpp.

#include <cstdint>
#include <utility>

#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/view.hpp"
#include "headmix/testing/emulated.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

/// A thread of an emulated block of a Hopper device.
struct EmulatedSm90a : Emulated {
  class queue;
  using tensor_map = cuda_kernels::emulator::tensor_map;

  using Emulated::Emulated;

  [[nodiscard]] int thread() const { return thread_ % machine_.block_threads(); }
  [[nodiscard]] int warp() const { return thread() / 32; }
  [[nodiscard]] int warpgroup() const { return thread() / cuda_kernels::warpgroup_threads; }
  [[nodiscard]] Index block() const { return machine_.block() + rank(); }
  [[nodiscard]] int rank() const { return machine_.rank(thread_); }
  template <class T>
  [[nodiscard]] shared_pointer<T> shared(int byte_offset) const {
    return {machine_, thread_, machine_.shared_begin(rank()) + byte_offset};
  }
  void sync_cluster() const { machine_.sync_cluster(thread_); }
  template <class T>
  [[nodiscard]] words<4> load16_at(shared_pointer<T> p, int of) const {
    machine_.require_running(thread_, of, "reads shared memory of");
    words<4> w;
    std::memcpy(&w, machine_.shared_at(thread_, of, p.offset(), 16), 16);
    return w;
  }

  // ---- barriers ----

  template <int threads>
  void sync_named(int barrier) const {
    state().barriers.sync_named(thread_, barrier, threads);
  }
  template <int threads>
  void arrive_named(int barrier) const {
    state().barriers.arrive_named(thread_, barrier, threads);
  }
  void mbarrier_init(shared_pointer<std::uint64_t> barrier, int arrivals) const {
    state().barriers.mbarrier_init(thread_, barrier.offset(), arrivals);
  }
  void arrive(shared_pointer<std::uint64_t> barrier) const { state().barriers.arrive(thread_, barrier.offset(), 0); }
  void arrive_at(shared_pointer<std::uint64_t> barrier, int of) const {
    machine_.require_running(thread_, of, "arrives at a barrier of");
    Index const there = machine_.shared_begin(of) - machine_.shared_begin(rank());
    state().barriers.arrive(thread_, barrier.offset() + there, 0);
  }
  void arrive_expect_tx(shared_pointer<std::uint64_t> barrier, int bytes) const {
    state().barriers.arrive(thread_, barrier.offset(), bytes);
  }
  void mbarrier_wait(shared_pointer<std::uint64_t> barrier, int parity) const {
    state().barriers.mbarrier_wait(thread_, barrier.offset(), parity);
  }
  void fence_proxy_async() const { state().copies.fence_proxy_async(thread_); }

  // ---- copies ----

  void tma_load(shared_pointer<bfloat16> to, tensor_map const& from, int row, int col,
                shared_pointer<std::uint64_t> barrier) const {
    state().copies.tma_load(thread_, to.offset(), from, row, col, barrier.offset());
  }

  void tma_load_multicast(shared_pointer<bfloat16> to, tensor_map const& from, int row, int col,
                          shared_pointer<std::uint64_t> barrier) const {
    state().copies.tma_load_multicast(thread_, to.offset(), from, row, col, barrier.offset());
  }

  // ---- products ----

  [[nodiscard]] cuda_kernels::matrix_descriptor describe(shared_pointer<bfloat16 const> tile, int leading,
                                                         int stride) const {
    Index const of_block = tile.offset() - machine_.shared_begin(rank());
    return cuda_kernels::describe_matrix(static_cast<std::uint32_t>(of_block), leading, stride);
  }
  template <class... Registers>
  void wgmma_fence(Registers&... used) const {
    state().products.fence(thread_, list(used...));
  }
  template <int n>
  void wgmma_k_k(float (&c)[n][4], cuda_kernels::matrix_descriptor a, cuda_kernels::matrix_descriptor b,
                 bool add) const {
    state().products.multiply(thread_, {"wgmma_k_k", &c[0][0], 8 * n, nullptr, a, b, add, false});
  }
  template <int n>
  void wgmma_k_mn(float (&c)[n][4], cuda_kernels::matrix_descriptor a, cuda_kernels::matrix_descriptor b,
                  bool add) const {
    state().products.multiply(thread_, {"wgmma_k_mn", &c[0][0], 8 * n, nullptr, a, b, add, true});
  }
  template <int n>
  void wgmma_mn_mn(float (&c)[n][4], cuda_kernels::matrix_descriptor a, cuda_kernels::matrix_descriptor b,
                   bool add) const {
    state().products.multiply(thread_, {"wgmma_mn_mn", &c[0][0], 8 * n, nullptr, a, b, add, true, true});
  }
  template <int n>
  void wgmma_k_mn(float (&c)[n][4], words<4> const& a, cuda_kernels::matrix_descriptor b, bool add) const {
    state().products.multiply(thread_, {"wgmma_k_mn", &c[0][0], 8 * n, &a, {}, b, add, true});
  }
  void wgmma_commit() const { state().products.commit(thread_); }
  template <int latest, class... Registers>
  void wgmma_wait(Registers&... used) const {
    static_assert(latest >= 0 && latest < 8, "headmix: wgmma_wait<n> leaves n groups of products unfinished, 0 to 7");
    state().products.wait(thread_, latest, list(used...));
  }

  // ---- registers ----

  template <int n>
  void setmaxnreg_dec() const {
    state().registers.decrease(thread_, n);
  }
  template <int n>
  void setmaxnreg_inc() const {
    state().registers.increase(thread_, n);
  }

 private:
  [[nodiscard]] cuda_kernels::emulator::warpgroups& state() const { return machine_.for_warpgroups(thread_); }
  template <class... Registers>
  static cuda_kernels::emulator::products::register_list list(Registers&... used) {
    return {{static_cast<void*>(&used), sizeof(used)}...};
  }
};

/// A stream that runs warpgroup kernels.
class EmulatedSm90a::queue : public Emulated::queue {
 public:
  using tensor_map = cuda_kernels::emulator::tensor_map;

  template <cuda_kernels::Kernel K>
  void launch(K const& kernel, Index blocks) const {
    launch_on<EmulatedSm90a>(kernel, blocks);
  }
  [[nodiscard]] static constexpr bool warpgroups() { return true; }

  /// The tensor map that cuTensorMapEncodeTiled would make.
  [[nodiscard]] tensor_map map_tensor(
      view<bfloat16 const> a, int rows,
      cuda_kernels::tile_swizzle swizzle = cuda_kernels::tile_swizzle::bytes_128) const {
    auto const bytes = a.row_stride * Index{sizeof(bfloat16)};
    auto const refuse = [&](auto const&... why) {
      fail("a map of a matrix of ", a.rows, " x ", a.cols, " with ", a.row_stride,
           " numbers from row to row, in tiles of ", rows, " rows: ", why...);
    };
    constexpr Index most = Index{1} << 32;
    if (reinterpret_cast<std::uintptr_t>(a.data) % 16 != 0) refuse("its address is not a multiple of 16");
    if (bytes % 16 != 0 || bytes < 0 || bytes >= Index{1} << 40) {
      refuse("expected a multiple of 16 bytes, less than 2^40, from row to row");
    }
    if (a.rows < 1 || a.rows > most || a.cols < 1 || a.cols > most) refuse("expected 1 to 2^32 rows and columns");
    if (a.col_stride != 1) refuse("expected numbers of a row without gaps");
    if (rows < 1 || rows > 256) refuse("expected 1 to 256 rows of a tile");
    return {a.data, a.rows, a.cols, a.row_stride, rows, swizzle};
  }
};

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
