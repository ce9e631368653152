#pragma once
// SPDX-License-Identifier: MIT
// Removes choices of experts that are full. One thread per slot.

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

struct apply_capacity_kernel {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<Int> y;
  view<Int const> index, perm, offsets;
  Index capacity;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const n = device.block() * threads + device.thread();
    if (n >= perm.cols) return;
    Int const s = device.load(&perm(0, n)), rows = static_cast<Int>(y.rows);
    Int const k = s / rows, i = s - k * rows, expert = device.load(&index(i, k));
    // Slots without an expert come last.
    bool const kept = n < device.load(&offsets(0, offsets.cols - 1)) && n - device.load(&offsets(0, expert)) < capacity;
    device.store(&y(i, k), kept ? expert : Int{-1});
  }
};

}  // namespace headmix::cuda_kernels
