#pragma once
// SPDX-License-Identifier: MIT
// Dense products of any types and strides, for cases that the vendor's library does not support.

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/products/product_tile.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// y (+)= a b, or matrix p of the stack y = the product over part p of the inner extent. A block computes 64 x 64
/// elements of a matrix, a thread 4 x 4 of them; sums are in order, in blocks.
template <class W, class T, class A, class B>
struct gemm_kernel {
  static constexpr int threads = product_tile::threads;
  static constexpr bool cooperative = true;
  static constexpr int tile = product_tile::size, depth = product_tile::depth, pitch = tile + 4;
  static constexpr int block = product_tile::block;
  static_assert(block % depth == 0, "headmix: a block of sums ends where a step of the depth does");
  static constexpr int blocks_at = 2 * depth * pitch * static_cast<int>(sizeof(W));
  static constexpr int shared_bytes = blocks_at + tile * tile * static_cast<int>(sizeof(W));

  view<T> y;
  view<A const> a;
  view<B const> b;
  bool accumulate;
  Index part_depth;  ///< of the inner extent

  /// Blocks of a product with one part.
  static Index blocks(Index rows, Index cols) { return blocks_for(rows, tile) * blocks_for(cols, tile); }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    auto const tile_a = device.template shared<W>(0);  // [depth, pitch]: column k of a, elements of consecutive rows
    auto const tile_b = device.template shared<W>(depth * pitch * static_cast<int>(sizeof(W)));
    Index const row_tiles = blocks_for(y.rows, tile), col_tiles = blocks_for(y.cols, tile);
    Index const first_row = device.block() % row_tiles * tile;
    Index const first_col = device.block() / row_tiles % col_tiles * tile;
    Index const part = device.block() / (row_tiles * col_tiles), begin = part * part_depth;
    Index const end = begin + part_depth < a.cols ? begin + part_depth : a.cols;
    view<T> const to = y[part];
    int const thread_row = device.thread() / 16, thread_col = device.thread() % 16;  // and every 16th after it
    W sum[4][4] = {};
    auto const blocks = device.template shared<W>(blocks_at + device.thread() * static_cast<int>(sizeof(W)));
    for (Index k = begin; k < end; k += depth) {
      if (k > begin && (k - begin) % block == 0) product_tile::add_block(blocks, sum, k - begin == block, false);
      stage(device, tile_a, a.transposed(), k, end, first_row);
      stage(device, tile_b, b, k, end, first_col);
      device.sync();
      for (int l = 0; l < depth; ++l) {
        W left[4], right[4];
        for (int i = 0; i < 4; ++i) {
          left[i] = tile_a[l * pitch + thread_row + 16 * i];
          right[i] = tile_b[l * pitch + thread_col + 16 * i];
        }
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
        }
      }
      device.sync();
    }
    if (end - begin > block) product_tile::add_block(blocks, sum, false, true);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        Index const row = first_row + thread_row + 16 * i, col = first_col + thread_col + 16 * j;
        if (row < y.rows && col < y.cols) store_element(device, &to(row, col), sum[i][j], accumulate);
      }
    }
  }

 private:
  /// Rows k .. k + depth, below end, and columns first .. first + tile of a matrix, zeros outside. Neighbouring threads
  /// read along the columns or, if those are strided, along the rows.
  template <class Device, class Shared, class M>
  HEADMIX_DEVICE void stage(Device& device, Shared to, view<M> const& from, Index k, Index end, Index first) const {
    bool const along_rows = from.col_stride != 1 && from.row_stride == 1;
    for (int e = device.thread(); e < depth * tile; e += threads) {
      int const i = along_rows ? e % depth : e / tile, j = along_rows ? e / depth : e % tile;
      bool const valid = k + i < end && first + j < from.cols;
      to[i * pitch + j] = valid ? static_cast<W>(device.load(&from(k + i, first + j))) : W(0);
    }
  }
};

/// The sum of the matrices of a stack, in order, element by element.
template <class W>
struct tree_stack_sum {
  static constexpr bool is_loop = true;
  view<W const> parts;

  struct row_of_parts {
    view<W const> parts;
    Index i;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      P sum(0);
      for (Index p = 0; p < parts.count; ++p) sum = sum + static_cast<P>(parts[p](i, j));
      return sum;
    }
  };
  HEADMIX_HD row_of_parts row(Index i) const { return {parts, i}; }
};

}  // namespace headmix::cuda_kernels
