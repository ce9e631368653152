#pragma once
// SPDX-License-Identifier: MIT
// Products with experts as one dense product, if the experts' matrices are blocks of one matrix, as those of heads are,
// and a row chooses many of them: rows of slots are scattered to their expert's block, with zeros where nothing was
// chosen. This multiplies more than the chosen blocks, at the rate of a dense product, and stores no product of a slot.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// The expert of each slot, from the expert order; -1: none.
struct find_slot_experts {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  slot_lists slots;
  Int* expert;

  [[nodiscard]] Index blocks() const { return blocks_for(slots.count(), threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i >= slots.count()) return;
    Index low = 0, high = slots.experts();  // the first expert that ends after the slot, or none
    while (low < high) {
      Index const middle = (low + high) / 2;
      if (slots.end(middle) <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    device.store(expert + slots.slot(i), low < slots.experts() ? static_cast<Int>(low) : Int{-1});
  }
};

/// z: for each row and each expert the row of x of the slot that chose it, or 0; the sum over several such slots. A
/// thread computes 8 elements.
template <Half T>
struct densify_slots {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  T* z;  ///< [rows, experts * depth]
  view<T const> x;
  Int const* expert;
  Index rows;
  int per_row;
  divisor of_row, of_expert;  ///< chunks of 8 elements

  static_assert(
      (Index{1} << 31) % threads == 0,
      "headmix: of fewer than 2^31 chunks (densified_shape::possible) no thread has a number of 2^31 or more");
  [[nodiscard]] Index chunks() const { return rows * of_row.n; }
  [[nodiscard]] Index blocks() const { return blocks_for(chunks(), threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Int const i = static_cast<Int>(device.block() * threads + device.thread()), row = i / of_row;
    if (row >= rows) return;
    Int const chunk = i - row * of_row.n, block_expert = chunk / of_expert,
              col = (chunk - block_expert * of_expert.n) * 8;
    words<4> sum = {};
    bool found = false;
    for (int k = 0; k < per_row; ++k) {
      Index const slot = Index{row} * per_row + k;
      if (device.load(expert + slot) != block_expert) continue;
      words<4> const eight = device.load16(x.data + slot * x.row_stride + col);
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) {
        std::uint32_t& both = sum.word[w];
        std::uint32_t const more = eight.word[w];
        both = found ? pack<T>(low_of<T>(both) + low_of<T>(more), high_of<T>(both) + high_of<T>(more)) : more;
      }
      found = true;
    }
    device.store16(z + Index{i} * 8, sum);
  }
};

}  // namespace headmix::cuda_kernels
