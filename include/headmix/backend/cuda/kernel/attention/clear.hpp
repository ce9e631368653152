#pragma once
// SPDX-License-Identifier: MIT
// The result of attention for slots without a head.

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// o = 0, gated or not, and a log-sum-exp of minus infinity for the slots with choice -1, which follow the last list.
/// Eight lanes per row.
template <class T>
struct attention_clear {
  static constexpr int threads = tuning::clear_threads, threads_per_row = tuning::row_lanes,
                       rows_at_once = threads / threads_per_row;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  static constexpr Index max_blocks = tuning::clear_blocks;

  view<T> o, gated;
  view<accumulator_t<T>> lse;
  Int const *slots, *begin;  ///< *begin: the first of these slots
  Index count, head_dim;     ///< count: of all slots
  bool vectorized;           ///< rows are written 16 bytes at a time

  [[nodiscard]] Index blocks() const {
    Index const n = blocks_for(count, rows_at_once);
    return n < max_blocks ? n : max_blocks;
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const lane = device.thread() % threads_per_row;
    for (Index i = *begin + device.block() * rows_at_once + device.thread() / threads_per_row; i < count;
         i += device.blocks() * rows_at_once) {
      Index const row = slots[i];
      if (o.data) clear(device, &o(row, 0), o.col_stride, lane);
      if (gated.data) clear(device, &gated(row, 0), gated.col_stride, lane);
      if (lse.data && lane == 0) device.store(&lse(row, 0), minus_infinity<accumulator_t<T>>);
    }
  }

 private:
  template <class Device>
  HEADMIX_DEVICE void clear(Device& device, T* row, Index stride, int lane) const {
    if constexpr (Half<T>) {
      if (vectorized) {
        for (Index c = 8 * lane; c < head_dim; c += 8 * threads_per_row) device.store16(row + c, words<4>{});
        return;
      }
    }
    for (Index c = lane; c < head_dim; c += threads_per_row) device.store(row + c * stride, T(0));
  }
};

}  // namespace headmix::cuda_kernels
