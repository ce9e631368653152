#pragma once
// SPDX-License-Identifier: MIT
// What attention gives to slots that chose no head.

#include "headmix/backend/cuda/kernel/collective.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::gpu {

/// o = 0, gated or not, and a log-sum-exp of minus infinity for the slots that chose nothing: those behind the last
/// list. A warp for a row.
template <class T>
struct attention_clear {
  static constexpr int threads = 256, warps = threads / 32;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  static constexpr Index most_blocks = 256;

  view<T> o, gated;
  view<accumulator_t<T>> lse;
  Int const *slots, *begin;  ///< *begin: the place of the first one
  Index count, head_dim;     ///< count: of all slots

  [[nodiscard]] Index blocks() const {
    Index const n = blocks_for(count, warps);
    return n < most_blocks ? n : most_blocks;
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    for (Index i = *begin + device.block() * warps + device.warp(); i < count; i += device.blocks() * warps) {
      Index const row = slots[i];
      for (Index c = device.lane(); c < head_dim; c += 32) {
        if (o.data) device.store(&o(row, c), T(0));
        if (gated.data) device.store(&gated(row, c), T(0));
      }
      if (lse.data && device.lane() == 0) device.store(&lse(row, 0), minus_infinity<accumulator_t<T>>);
    }
  }
};

}  // namespace headmix::gpu
