#pragma once
// SPDX-License-Identifier: MIT
// What kernels for Hopper's own instructions share with the devices that have them (Device::warpgroups): the layout of
// tiles that products of a warpgroup read, and the descriptors that name them. Bit for bit as the PTX ISA says
// (asynchronous warpgroup level matrix instructions: shared memory matrix layout, matrix descriptor; TMA swizzling).

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// Threads of a warpgroup: four warps, the first of them a multiple of four.
inline constexpr int warpgroup_threads = 128;

/// Tiles are cut into panels of 64 columns of 16-bit numbers: a row of a panel has 128 bytes. Of every eight rows,
/// 1,024 bytes, the chunks of 16 bytes are permuted: chunk c of row r lies where chunk c ^ r % 8 would. So TMA writes
/// them, and so does tile_layout<64> (kernel/matrix_tile.hpp).
inline constexpr int panel_columns = 64, panel_row_bytes = 128, panel_alignment = 1024;

/// The permutation, on addresses that count from a multiple of 1,024: bits 4 to 6 are changed by bits 7 to 9.
[[nodiscard]] HEADMIX_HD constexpr std::uint32_t swizzle_128(std::uint32_t address) {
  return address ^ (address >> 3 & 0x70);
}

/// How rows of a tensor that TMA brings lie in shared memory.
enum class tile_swizzle { none, bytes_128 };

/// What a product reads from shared memory. Bits 0 to 13: the address; 16 to 29 and 32 to 45: the two strides, all
/// three of them divided by 16; 49 to 51: the base offset, 0 for tiles at multiples of 1,024; 62 and 63: the swizzle, 1
/// for 128 bytes.
struct matrix_descriptor {
  std::uint64_t bits;

  /// So many bytes further: `bytes` is a multiple of 16, and no bit is carried out of the address.
  [[nodiscard]] HEADMIX_HD constexpr matrix_descriptor after(int bytes) const {
    auto const low = static_cast<std::uint32_t>(bits) + static_cast<std::uint32_t>(bytes / 16);  // of 32 bits: no carry
    return {(bits >> 32 << 32) | low};
  }
};
/// Of panels with 128-byte swizzle. `leading` is not used by an operand whose rows run along the depth (one step of the
/// depth, 16 columns, is 32 bytes further). One whose rows run across it has a panel every `leading` bytes, and the
/// next eight steps of the depth `stride` bytes further. `stride`: from eight rows of a panel to the next eight.
[[nodiscard]] HEADMIX_HD constexpr matrix_descriptor describe_matrix(std::uint32_t address, int leading, int stride) {
  auto const field = [](std::uint32_t bytes) { return static_cast<std::uint64_t>((bytes & 0x3FFFF) >> 4); };
  return {field(address) | field(static_cast<std::uint32_t>(leading)) << 16 |
          field(static_cast<std::uint32_t>(stride)) << 32 | std::uint64_t{1} << 62};
}

/// 1: all lanes of a warp arrive at a barrier. compute-sanitizer's racecheck wants that: where the compiler has left
/// out a __syncwarp since a warp runs together anyway, it reports what 32 lanes read before one of them arrives.
#ifndef HEADMIX_CUDA_RACECHECK
#define HEADMIX_CUDA_RACECHECK 0
#endif
/// Arrivals of a warp at a barrier.
inline constexpr int warp_arrivals = HEADMIX_CUDA_RACECHECK ? 32 : 1;
/// By all lanes of a warp: what they did before is done for those who wait.
template <class Device, class Barrier>
HEADMIX_DEVICE void arrive_by_warp(Device& device, Barrier const& barrier) {
  device.sync_warp();
  if (warp_arrivals == 32 || device.lane() == 0) device.arrive(barrier);
}

/// Whether kernels for warpgroups may be launched on a queue: a question of the type, and then of the device.
template <class Queue>
concept WarpgroupQueue = requires(Queue const& queue) {
  typename Queue::tensor_map;
  queue.warpgroups();
};

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS
