#pragma once
// SPDX-License-Identifier: MIT
// Grouped product summed over the slots of a row: y_r (+)= the sum over the slots s of row r of x_s w_e. If a row
// chooses many of the experts it is a dense product. Otherwise the slots' products, the parts, are stored in scratch
// memory, where the slots of a row are adjacent, and added in order.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// y_r (+)= the sum of rows r n .. r n + n - 1 of `parts`, a contiguous matrix; a thread has 8 elements of a row.
template <Half T>
struct slot_sum {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  T const* parts;
  int n;
  bool accumulate;

  [[nodiscard]] Index blocks() const { return blocks_for(y.size() / 8, threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const chunks = y.cols / 8, i = device.block() * threads + device.thread();
    if (i >= y.rows * chunks) return;
    Index const row = i / chunks, col = i % chunks * 8;
    T* const to = y.data + row * y.row_stride + col;
    words<4> sums = accumulate ? device.load16(to) : words<4>{};
    float sum[8] = {};
    T const* from = parts + row * n * y.cols + col;
    for (int s = 0; s < n; ++s, from += y.cols) {
      words<4> const eight = device.load16(from);
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) {
        sum[2 * w] += low_of<T>(eight.word[w]);
        sum[2 * w + 1] += high_of<T>(eight.word[w]);
      }
    }
    HEADMIX_UNROLL
    for (int w = 0; w < 4; ++w) {
      std::uint32_t& word = sums.word[w];
      word = pack<T>(low_of<T>(word) + sum[2 * w], high_of<T>(word) + sum[2 * w + 1]);
    }
    device.store16(to, sums);
  }
};

}  // namespace headmix::cuda_kernels
