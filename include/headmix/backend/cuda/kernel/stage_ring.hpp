#pragma once
// SPDX-License-Identifier: MIT
// A ring of stages in shared memory, which some warps fill for others.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"

namespace headmix::gpu {

/// The barriers of `stages` stages, from byte `begin` of shared memory on: two for each, full and empty. Phase n of a
/// stage's barriers belongs to the n-th step that is in it.
template <int stages, int begin>
struct stage_ring {
  static constexpr int end = begin + 2 * stages * 8;

  [[nodiscard]] static HEADMIX_HD constexpr int stage_of(int step) { return step % stages; }
  [[nodiscard]] static HEADMIX_HD constexpr int parity_of(int step) { return step / stages % 2; }

  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto full(Device& device, int step) {
    return device.template shared<std::uint64_t>(begin) + stage_of(step);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto empty(Device& device, int step) {
    return device.template shared<std::uint64_t>(begin) + (stages + stage_of(step));
  }
  /// By one thread; the block synchronises behind it, and behind a fence_async. A stage is full when `filling` have
  /// arrived, and empty when `reading` have.
  template <class Device>
  static HEADMIX_DEVICE void init(Device& device, int filling, int reading) {
    for (int i = 0; i < stages; ++i) {
      device.init_barrier(full(device, i), filling);
      device.init_barrier(empty(device, i), reading);
    }
  }
  template <class Device>
  static HEADMIX_DEVICE void wait_full(Device& device, int step) {
    device.wait_barrier(full(device, step), parity_of(step));
  }
  /// At once for the first `stages` steps.
  template <class Device>
  static HEADMIX_DEVICE void wait_empty(Device& device, int step) {
    device.wait_barrier(empty(device, step), parity_of(step) ^ 1);
  }
  /// By all lanes of a warp, whose copies of the step have arrived.
  template <class Device>
  static HEADMIX_DEVICE void arrive_full(Device& device, int step) {
    device.fence_async();
    device.sync_warp();
    if (device.lane() == 0) device.arrive(full(device, step));
  }
  /// By all lanes of a warp, which needs the step's stage no more.
  template <class Device>
  static HEADMIX_DEVICE void arrive_empty(Device& device, int step) {
    device.sync_warp();
    if (device.lane() == 0) device.arrive(empty(device, step));
  }
};

}  // namespace headmix::gpu
