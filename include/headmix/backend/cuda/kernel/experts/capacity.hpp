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

/// y = index, and -1 for a slot after the first `capacity` slots of its expert. Slot s is choice s / rows of row s %
/// rows; `perm` and `offsets` are sort_by_expert of the transposed index.
template <class Queue>
void apply_capacity(Queue& queue, view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets,
                    Index capacity) {
  queue.launch(apply_capacity_kernel{y, index, perm, offsets, capacity},
               blocks_for(perm.cols, apply_capacity_kernel::threads));
}

}  // namespace headmix::cuda_kernels
