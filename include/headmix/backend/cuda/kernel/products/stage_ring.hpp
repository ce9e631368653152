#pragma once
// SPDX-License-Identifier: MIT
// A ring of stages in shared memory between producer and consumer warps.

#include <cstdint>

#include "headmix/backend/cuda/warpgroup.hpp"

namespace headmix::cuda_kernels {

/// The barriers of `stages` stages, from byte `begin` of shared memory on: two for each, full and empty. Phase n of a
/// stage's barriers is for the n-th step in it. With several `readers` each step is for one of them, and a stage has a
/// full barrier for each: its phases are the steps for this reader, which wait_next counts.
template <int stages, int begin, int readers = 1>
struct stage_ring {
  static constexpr int end = begin + (readers + 1) * stages * 8;

  [[nodiscard]] static HEADMIX_HD constexpr int stage_of(int step) { return step % stages; }
  [[nodiscard]] static HEADMIX_HD constexpr int parity_of(int step) { return step / stages % 2; }

  /// The stage and phase of a step counter, without a division by the number of stages.
  struct position {
    int stage = 0, parity = 0;

    HEADMIX_DEVICE void advance(int steps = 1) {
      for (stage += steps; stage >= stages; stage -= stages) parity ^= 1;
    }
  };

  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto full_at(Device& device, int stage, int reader = 0) {
    return device.template shared<std::uint64_t>(begin) + (reader * stages + stage);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto empty_at(Device& device, int stage) {
    return device.template shared<std::uint64_t>(begin) + (readers * stages + stage);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto full(Device& device, int step, int reader = 0) {
    return full_at(device, stage_of(step), reader);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto empty(Device& device, int step) {
    return empty_at(device, stage_of(step));
  }
  /// Called by one thread, before a fence_proxy_async and a barrier of the block. A stage is full when the warps that
  /// fill it have arrived, and this many threads in addition; empty when the warps that read it have arrived.
  template <class Device>
  static HEADMIX_DEVICE void init(Device& device, int filling_warps, int filling_threads, int reading_warps) {
    for (int i = 0; i < stages; ++i) {
      for (int reader = 0; reader < readers; ++reader) {
        device.mbarrier_init(full(device, i, reader), filling_warps * warp_arrivals + filling_threads);
      }
      device.mbarrier_init(empty(device, i), reading_warps * warp_arrivals);
    }
  }
  template <class Device>
  static HEADMIX_DEVICE void wait_full(Device& device, int step) {
    device.mbarrier_wait(full(device, step), parity_of(step));
  }
  /// Called by a reader that waits for all of its steps in order; `parities` starts as 0 and has a bit for each stage.
  template <class Device>
  static HEADMIX_DEVICE void wait_next(Device& device, position const& at, int reader, int& parities) {
    device.mbarrier_wait(full_at(device, at.stage, reader), parities >> at.stage & 1);
    parities ^= 1 << at.stage;
  }
  /// Returns at once for the first `stages` steps.
  template <class Device>
  static HEADMIX_DEVICE void wait_empty(Device& device, int step) {
    device.mbarrier_wait(empty(device, step), parity_of(step) ^ 1);
  }
  template <class Device>
  static HEADMIX_DEVICE void wait_empty(Device& device, position const& at) {
    device.mbarrier_wait(empty_at(device, at.stage), at.parity ^ 1);
  }
  /// Called by all lanes of a warp whose copies of the step have arrived.
  template <class Device>
  static HEADMIX_DEVICE void arrive_full(Device& device, int step) {
    arrive_full(device, position{stage_of(step), 0}, 0);
  }
  template <class Device>
  static HEADMIX_DEVICE void arrive_full(Device& device, position const& at, int reader) {
    device.fence_proxy_async();
    arrive_by_warp(device, full_at(device, at.stage, reader));
  }
  /// Called by all lanes of a warp that has read the step's stage.
  template <class Device>
  static HEADMIX_DEVICE void arrive_empty(Device& device, int step) {
    arrive_by_warp(device, empty(device, step));
  }
};

}  // namespace headmix::cuda_kernels
