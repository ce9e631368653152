#pragma once
// SPDX-License-Identifier: MIT
// Split of rows over blocks: if there are few tiles of keys, several blocks share the rows that see one, and their sums
// are added in order.

#include <cstddef>

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Sums of d_k and d_v over parts of the rows, each a contiguous matrix of all keys.
struct attention_parts {
  float* data = nullptr;
  Index count = 1, rows = 0, cols = 0;

  [[nodiscard]] HEADMIX_HD float* of(Index part, bool values) const { return data + (2 * part + values) * rows * cols; }
  [[nodiscard]] std::size_t bytes() const {
    return count == 1 ? 0 : static_cast<std::size_t>(2 * count * rows * cols) * sizeof(float);
  }
};

/// d_k and d_v = the sums of the parts, in order; a gradient with null data is not computed. Rows are aligned.
struct attention_add_parts {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  attention_parts parts;
  view<bfloat16> d_k, d_v;
  attention_dropout dropout;

  [[nodiscard]] HEADMIX_HD Index blocks_each() const { return blocks_for(parts.rows * parts.cols / 8, threads); }
  [[nodiscard]] Index blocks() const { return 2 * blocks_each(); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (dropout.on()) return;  // there are no parts
    bool const values = device.block() >= blocks_each();
    view<bfloat16> const& to = values ? d_v : d_k;
    Index const block = device.block() - (values ? blocks_each() : 0);
    Index const i = block * threads + device.thread(), chunks = parts.cols / 8;
    if (to.data == nullptr || i >= parts.rows * chunks) return;
    Index const row = i / chunks, col = i % chunks * 8;
    float sum[8] = {};
    for (Index part = 0; part < parts.count; ++part) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        words<4> const four = device.load16(parts.of(part, values) + row * parts.cols + col + 4 * half);
        HEADMIX_UNROLL
        for (int w = 0; w < 4; ++w) sum[4 * half + w] += __builtin_bit_cast(float, four.word[w]);
      }
    }
    device.store16(&to(row, col),
                   {{pack(sum[0], sum[1]), pack(sum[2], sum[3]), pack(sum[4], sum[5]), pack(sum[6], sum[7])}});
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
