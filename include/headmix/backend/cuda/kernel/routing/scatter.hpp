#pragma once
// SPDX-License-Identifier: MIT
// Scatter-add: rows added to the table rows that they index. Rows are sorted by index, so each row of the table is the
// sum of a list of rows, in an order that depends on the indices alone.

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// y_v (+)= the rows order[begins[v]] .. order[begins[v + 1] - 1] of a, added in order, in blocks. A warp has 128
/// columns of a row.
template <class W, class T>
struct scatter_kernel {
  static constexpr int threads = tuning::scatter_rows.threads, columns = tuning::scatter_rows.columns;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  view<T const> a;
  Int const *order, *begins;
  bool accumulate;

  static Index blocks(view<T> const& y) { return blocks_for(y.rows, threads / 32) * blocks_for(y.cols, columns); }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const column_tiles = blocks_for(y.cols, columns);
    Index const v = device.block() / column_tiles * (threads / 32) + device.warp();
    if (v >= y.rows) return;
    Index const first = device.block() % column_tiles * columns + device.lane();
    Int const begin = device.load(begins + v), end = device.load(begins + v + 1);
    if (accumulate && begin == end) return;
    Index const left = y.cols - first;  // columns first, first + 32, ... below it
    if (end - begin > block_terms) {
      HEADMIX_NO_UNROLL
      for (Index j = 0; j < left && j < columns; j += 32) {
        double blocks = 0;
        HEADMIX_NO_UNROLL
        for (Int p = begin; p < end;) {
          Int const last = end - p > block_terms ? p + block_terms : end;
          W sum = 0;
          HEADMIX_NO_UNROLL
          for (; p < last; ++p) sum += static_cast<W>(device.load(&a(device.load(order + p), first + j)));
          blocks += static_cast<double>(sum);
        }
        store_element(device, &y(v, first + j), static_cast<W>(blocks), accumulate);
      }
      return;
    }
    W sum[4] = {};
    for (Int p = begin; p < end; ++p) {
      T const* const row = a.row(device.load(order + p)) + first * a.col_stride;
      for (int c = 0; c < 4; ++c) {
        if (32 * c < left) sum[c] += static_cast<W>(device.load(row + 32 * c * a.col_stride));
      }
    }
    T* const row = y.row(v) + first * y.col_stride;
    for (int c = 0; c < 4; ++c) {
      if (32 * c < left) store_element(device, row + 32 * c * y.col_stride, sum[c], accumulate);
    }
  }
};

/// The kernel for long lists: a block has 32 columns of a row of y, and its warps share the list.
template <class W, class T>
struct scatter_long_kernel {
  static constexpr int threads = tuning::scatter_rows.threads, warps = threads / 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = threads * static_cast<int>(sizeof(W));

  view<T> y;
  view<T const> a;
  Int const *order, *begins;
  bool accumulate;

  static Index blocks(view<T> const& y) { return y.rows * blocks_for(y.cols, 32); }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const column_tiles = blocks_for(y.cols, 32);
    Index const v = device.block() / column_tiles, j = device.block() % column_tiles * 32 + device.lane();
    Int const begin = device.load(begins + v), end = device.load(begins + v + 1);
    W sum = 0;
    if (j < y.cols) {
      sum = sum_in_blocks<W, W>(begin + device.warp(), end, warps,
                                [&](Index p) { return static_cast<W>(device.load(&a(device.load(order + p), j))); });
    }
    auto const partial = device.template shared<W>(0);
    partial[device.thread()] = sum;
    device.sync();
    if (device.warp() != 0 || j >= y.cols) return;
    for (int w = 1; w < warps; ++w) {
      W const other = partial[w * 32 + device.lane()];
      sum += other;
    }
    store_element(device, &y(v, j), sum, accumulate);
  }
};

}  // namespace headmix::cuda_kernels
