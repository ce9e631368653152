#pragma once
// SPDX-License-Identifier: MIT
// The tile of grouped products of any type and strides: 64 x 64 sums by 256 threads, 4 x 4 each. Dense products
// (gemm.hpp) have their own tile, which nvcc unrolls differently.

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::cuda_kernels {

struct product_tile {
  static constexpr int threads = tuning::plain_product.threads;
  static constexpr int size = tuning::plain_product.size;    ///< rows, and columns
  static constexpr int depth = tuning::plain_product.depth;  ///< per step
  static constexpr int block = 4 * block_terms;              ///< products that a sum adds sequentially
  int row, col;  ///< the thread's first row and column, followed by every 16th

  HEADMIX_DEVICE explicit product_tile(int thread) : row(thread / 16), col(thread % 16) {}

  /// Adds a step: row k of `a_tile` holds column k of a, row k of `b_tile` row k of b. Their rows are `a_pitch` and
  /// `size` elements apart.
  template <class W, class Shared>
  HEADMIX_DEVICE void multiply_add(W (&sum)[4][4], Shared const& a_tile, int a_pitch, Shared const& b_tile) const {
    HEADMIX_UNROLL
    for (int k = 0; k < depth; ++k) {
      W a[4], b[4];
      HEADMIX_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = a_tile[k * a_pitch + row + 16 * i];
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) b[j] = b_tile[k * size + col + 16 * j];
      HEADMIX_UNROLL
      for (int i = 0; i < 4; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
      }
    }
  }

  /// Adds the sums of a thread to those of previous blocks, if any, and resets them to zero, or to the total after the
  /// last block. Block sums are in shared memory, since registers are scarce.
  /// @param blocks  the thread's first of size * size numbers
  template <class W, class Shared>
  HEADMIX_DEVICE static void add_block(Shared const& blocks, W (&sum)[4][4], bool is_first, bool is_last) {
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) {
        int const at = (4 * i + j) * threads;
        W const total = is_first ? sum[i][j] : W(blocks[at]) + sum[i][j];
        if (!is_last) blocks[at] = total;
        sum[i][j] = is_last ? total : W(0);
      }
    }
  }
};

}  // namespace headmix::cuda_kernels
