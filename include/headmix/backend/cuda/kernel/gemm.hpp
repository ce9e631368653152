#pragma once
// SPDX-License-Identifier: MIT
// Dense products of any types and strides, for what the vendor's library does not do.

#include "headmix/backend/cuda/kernel/collective.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda {

/// y (+)= a b. A block makes 64 x 64 elements of y, a thread 4 x 4 of them; sums run over the inner extent in order.
template <class W, class T, class A, class B>
struct gemm_kernel {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  static constexpr int tile = 64, depth = 16, pitch = tile + 4;
  static constexpr int shared_bytes = 2 * depth * pitch * static_cast<int>(sizeof(W));

  view<T> y;
  view<A const> a;
  view<B const> b;
  bool accumulate;

  static Index blocks(view<T> const& y) { return blocks_for(y.rows, tile) * blocks_for(y.cols, tile); }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const tile_a = device.template shared<W>(0);  // [depth, pitch]: column k of a, elements of consecutive rows
    auto const tile_b = device.template shared<W>(depth * pitch * static_cast<int>(sizeof(W)));
    Index const row_tiles = blocks_for(y.rows, tile);
    Index const first_row = device.block() % row_tiles * tile, first_col = device.block() / row_tiles * tile;
    int const mine_row = device.thread() / 16, mine_col = device.thread() % 16;  // and every 16th after it
    W sum[4][4] = {};
    for (Index k = 0; k < a.cols; k += depth) {
      stage(device, tile_a, a.transposed(), k, first_row);
      stage(device, tile_b, b, k, first_col);
      device.sync();
      for (int l = 0; l < depth; ++l) {
        W left[4], right[4];
        for (int i = 0; i < 4; ++i) {
          left[i] = tile_a[l * pitch + mine_row + 16 * i];
          right[i] = tile_b[l * pitch + mine_col + 16 * i];
        }
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
        }
      }
      device.sync();
    }
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        Index const row = first_row + mine_row + 16 * i, col = first_col + mine_col + 16 * j;
        if (row < y.rows && col < y.cols) put_element(device, &y(row, col), sum[i][j], accumulate);
      }
    }
  }

 private:
  /// Rows k .. k + depth and columns first .. first + tile of a matrix, zeros outside. Neighbouring threads read along
  /// the columns or, where those are apart, along the rows.
  template <class Device, class Shared, class M>
  HEADMIX_DEVICE void stage(Device& device, Shared to, view<M> const& from, Index k, Index first) const {
    bool const along_rows = from.col_stride != 1 && from.row_stride == 1;
    for (int e = device.thread(); e < depth * tile; e += threads) {
      int const i = along_rows ? e % depth : e / tile, j = along_rows ? e / depth : e % tile;
      bool const real = k + i < from.rows && first + j < from.cols;
      to[i * pitch + j] = real ? static_cast<W>(device.load(&from(k + i, first + j))) : W(0);
    }
  }
};

template <class W, class Queue, class T, class A, class B>
void gemm(Queue& queue, view<T> y, view<A const> a, view<B const> b, bool accumulate) {
  using kernel = gemm_kernel<W, T, A, B>;
  queue.launch(kernel{y, a, b, accumulate}, kernel::blocks(y));
}

}  // namespace headmix::cuda
