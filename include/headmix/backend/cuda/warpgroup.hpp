#pragma once
// SPDX-License-Identifier: MIT
// Layouts shared by warpgroup kernels and devices with Hopper's instructions (Device::warpgroups): tiles of wgmma
// operands in shared memory, and their matrix descriptors. Bit for bit as in the PTX ISA (asynchronous warpgroup level
// matrix instructions: shared memory matrix layout, matrix descriptor; TMA swizzling).

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Threads of a warpgroup: four warps, starting at a multiple of four.
inline constexpr int warpgroup_threads = 128;

/// Tiles are divided into panels of 64 columns of 16-bit numbers: a row of a panel has 128 bytes. In every eight rows,
/// 1,024 bytes, the 16-byte chunks are permuted: chunk c of row r is at the place of chunk c ^ r % 8. TMA writes this
/// layout, and so does tile_layout<64> (kernel/products/matrix_tile.hpp).
inline constexpr int panel_columns = 64, panel_row_bytes = 128, panel_alignment = 1024;

/// The permutation of addresses relative to a multiple of 1,024: bits 4 to 6 are xored with bits 7 to 9.
[[nodiscard]] HEADMIX_HD constexpr std::uint32_t swizzle_128(std::uint32_t address) {
  return address ^ (address >> 3 & 0x70);
}

/// The shared-memory layout of the rows of a TMA tile.
enum class tile_swizzle { none, bytes_128 };

/// A wgmma operand in shared memory. Bits 0 to 13: the address; 16 to 29 and 32 to 45: the leading and the stride
/// offset, all three divided by 16; 49 to 51: the base offset, 0 for tiles at multiples of 1,024; 62 and 63: the
/// swizzle, 1 for 128 bytes.
struct matrix_descriptor {
  std::uint64_t bits;

  /// The descriptor `bytes` further, a multiple of 16 that carries no bit out of the address.
  [[nodiscard]] HEADMIX_HD constexpr matrix_descriptor after(int bytes) const {
    auto const low = static_cast<std::uint32_t>(bits) + static_cast<std::uint32_t>(bytes / 16);  // 32 bits: no carry
    return {(bits >> 32 << 32) | low};
  }
};
/// The descriptor of panels with 128-byte swizzle. K-major operands (rows along the depth) do not use `leading`; one
/// step of the depth, 16 columns, is 32 bytes. MN-major operands have a panel every `leading` bytes, and eight steps of
/// the depth are `stride` bytes. `stride`: from eight rows of a panel to the next eight.
[[nodiscard]] HEADMIX_HD constexpr matrix_descriptor describe_matrix(std::uint32_t address, int leading, int stride) {
  auto const field = [](std::uint32_t bytes) { return static_cast<std::uint64_t>((bytes & 0x3FFFF) >> 4); };
  return {field(address) | field(static_cast<std::uint32_t>(leading)) << 16 |
          field(static_cast<std::uint32_t>(stride)) << 32 | std::uint64_t{1} << 62};
}

/// 1: all lanes of a warp arrive at a barrier, for compute-sanitizer's racecheck. Where the compiler has removed a
/// __syncwarp because the warp is converged, racecheck reports the reads of 32 lanes before the arrival of one.
#ifndef HEADMIX_CUDA_RACECHECK
#define HEADMIX_CUDA_RACECHECK 0
#endif
/// Arrivals of a warp at a barrier.
inline constexpr int warp_arrivals = HEADMIX_CUDA_RACECHECK ? 32 : 1;
/// Arrival of a warp, called by all lanes: waiters see their earlier accesses.
template <class Device, class Barrier>
HEADMIX_DEVICE void arrive_by_warp(Device& device, Barrier const& barrier) {
  device.sync_warp();
  if (warp_arrivals == 32 || device.lane() == 0) device.arrive(barrier);
}

/// True if warpgroup kernels may be launched on a queue: depends on the queue type, then on the device.
template <class Queue>
concept WarpgroupQueue = requires(Queue const& queue) {
  typename Queue::tensor_map;
  queue.warpgroups();
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
