#pragma once
// SPDX-License-Identifier: MIT
// Grouped product, one weight matrix per expert: y_s = x_{s / slots_per_row} w_e for every slot s of expert e. A block
// computes a tile of the slots of one expert, gathers its rows of x and scatters its rows of y; nothing is permuted in
// memory. Slots without an expert are one more segment at the end, with y = 0.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/products/product_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Plain kernel for any type and strides: product tiles of slots and columns.
template <class T>
struct grouped_gemm_plain {
  static constexpr int threads = product_tile::threads, tile = product_tile::size, depth = product_tile::depth;
  static constexpr bool cooperative = true;
  static constexpr int a_pitch = tile + 1;  // one more: threads write columns of it
  static constexpr int shared_bytes = depth * (a_pitch + tile) * static_cast<int>(sizeof(accumulator_t<T>));

  view<T> y;
  view<T const> x, w;
  slot_lists slots;

  [[nodiscard]] Index blocks() const {
    return tile_bound(slots.count(), slots.experts() + 1, tile) * blocks_for(y.cols, tile);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    using wide = accumulator_t<T>;
    Index const column_tiles = blocks_for(y.cols, tile);
    slot_tile const block_tile(device, slots, device.block() / column_tiles, tile);
    if (block_tile.count <= 0) return;
    bool const has_expert = block_tile.expert < slots.experts();
    Index const col0 = device.block() % column_tiles * tile;
    int const thread = device.thread();
    product_tile const accumulators(thread);
    auto const a_tile = device.template shared<wide>(0);
    auto const b_tile = device.template shared<wide>(depth * a_pitch * static_cast<int>(sizeof(wide)));
    view<T const> const weight = has_expert ? w[block_tile.expert] : w;
    bool const by_column = w.col_stride != 1;  // neighbouring threads read neighbouring elements, if any are adjacent

    wide sum[4][4] = {};
    for (Index k0 = 0; has_expert && k0 < w.rows; k0 += depth) {
      HEADMIX_UNROLL
      for (int p = 0; p < tile * depth / threads; ++p) {
        int const i = thread / depth + p * (threads / depth), k = thread % depth;
        bool const valid = i < block_tile.count && k0 + k < w.rows;
        a_tile[k * a_pitch + i] =
            valid ? static_cast<wide>(x.row(slots.row_of(slots.slot(block_tile.begin + i)))[(k0 + k) * x.col_stride])
                  : wide(0);
      }
      HEADMIX_UNROLL
      for (int p = 0; p < tile * depth / threads; ++p) {
        int const n = thread + p * threads;
        int const k = by_column ? n % depth : n / tile, j = by_column ? n / depth : n % tile;
        bool const valid = k0 + k < w.rows && col0 + j < w.cols;
        b_tile[k * tile + j] = valid ? static_cast<wide>(weight(k0 + k, col0 + j)) : wide(0);
      }
      device.sync();
      accumulators.multiply_add(sum, a_tile, a_pitch, b_tile);
      device.sync();
    }
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (accumulators.row + 16 * i >= block_tile.count) continue;
      T* const to = y.row(slots.slot(block_tile.begin + accumulators.row + 16 * i));
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) {
        Index const col = col0 + accumulators.col + 16 * j;
        if (col < y.cols) device.store(to + col * y.col_stride, static_cast<T>(sum[i][j]));
      }
    }
  }
};

/// Tensor-core kernel: 128 slots x `columns` columns by four warps, two by two. Rows of x and y, and of w or its
/// transpose, are aligned. The next steps of the depth are loaded during the products of one.
template <Half T, int columns, bool transposed>
struct grouped_gemm_tensor {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int rows = tuning::sm80::grouped_gemm<columns>.rows;
  static constexpr int depth = tuning::sm80::grouped_gemm<columns>.depth;
  static constexpr int stages = tuning::sm80::grouped_gemm<columns>.stages;
  static constexpr int a_bytes = rows * depth * 2, b_bytes = depth * columns * 2;
  static constexpr int shared_bytes = stages * (a_bytes + b_bytes);
  static_assert(rows * columns * 2 <= shared_bytes, "headmix: the result does not fit in shared memory");

  view<T> y;
  view<T const> x, w;
  slot_lists slots;

  [[nodiscard]] Index blocks() const {
    return tile_bound(slots.count(), slots.experts() + 1, rows) * blocks_for(y.cols, columns);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const block = static_cast<int>(device.block()), column_tiles = static_cast<int>(blocks_for(y.cols, columns));
    slot_tile const block_tile(device, slots, block / column_tiles, rows);
    if (block_tile.count <= 0) return;
    int const col0 = block % column_tiles * columns;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();
    bool const has_expert = block_tile.expert < slots.experts();
    int const inner = static_cast<int>(w.rows), width = static_cast<int>(w.cols);

    // The rows of x that this thread copies. All loads first, to overlap their latencies.
    using a_copy = tile_copy<rows, depth, threads>;
    Int row[a_copy::count];
    HEADMIX_UNROLL
    for (int p = 0; p < a_copy::count; ++p) row[p] = block_tile.slot(slots, a_copy::row(thread, p));
    HEADMIX_UNROLL
    for (int p = 0; p < a_copy::count; ++p) row[p] = slots.row_of(row[p]);
    int const x_stride = static_cast<int>(x.row_stride);
    int const w_stride = static_cast<int>(transposed ? w.col_stride : w.row_stride);
    T const* const weight = w.data + (has_expert ? block_tile.expert * w.stack_stride : 0) +
                            (transposed ? Index{col0} * w_stride : Index{col0});
    auto const start = [&](int step, int stage) {
      int const k0 = step * depth;
      a_copy::start(device, device.template shared<T>(stage * a_bytes), thread, block_tile.count, inner - k0,
                    [&](int p, int) { return x.data + k0 + Index{row[p]} * x_stride; });
      auto const to = device.template shared<T>(stages * a_bytes + stage * b_bytes);
      if constexpr (transposed) {
        tile_copy<columns, depth, threads>::start(device, to, thread, width - col0, inner - k0,
                                                  [&](int, int j) { return weight + k0 + Index{j} * w_stride; });
      } else {
        tile_copy<depth, columns, threads>::start(device, to, thread, inner - k0, width - col0,
                                                  [&](int, int k) { return weight + (Index{k0} + k) * w_stride; });
      }
    };

    constexpr int m = 4, n = columns / 16;  // a warp has 16 m x 8 n accumulators
    int const warp_row = warp / 2 * (16 * m), warp_col = warp % 2 * (8 * n);
    fragment_position<depth, true> const a_position(lane, warp_row, 0);
    fragment_position<transposed ? depth : columns, !transposed> const b_position(lane, transposed ? warp_col : 0,
                                                                                  transposed ? 0 : warp_col);
    float sum[m][n][4] = {};
    int const steps = has_expert ? (inner + depth - 1) / depth : 0;
    HEADMIX_UNROLL
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) start(step, step);
      device.cp_async_commit();
    }
    int stage = 0, next = stages - 1;
    for (int step = 0; step < steps; ++step) {
      device.template cp_async_wait<stages - 2>();
      device.sync();  // this step's tiles have arrived, and all threads have read the last step's
      if (step + stages - 1 < steps) start(step + stages - 1, next);
      device.cp_async_commit();
      auto const a_tile = device.template shared<T>(stage * a_bytes);
      auto const b_tile = device.template shared<T>(stages * a_bytes + stage * b_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < depth; k += 16) {
        words<4> a[m], b[n / 2];
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) a[i] = load_a(device, a_tile, a_position, 16 * i, k);
        HEADMIX_UNROLL
        for (int j = 0; j < n / 2; ++j) {
          if constexpr (transposed) {
            b[j] = load_b_transposed(device, b_tile, b_position, 16 * j, k);
          } else {
            b[j] = load_b(device, b_tile, b_position, k, 16 * j);
          }
        }
        multiply_add<m, n, T>(device, sum, a, b);
      }
      stage = stage + 1 == stages ? 0 : stage + 1;
      next = next + 1 == stages ? 0 : next + 1;
    }

    // Through shared memory, for stores of whole rows.
    device.template cp_async_wait<0>();
    device.sync();
    store_accumulators<columns, T>(device.template shared<std::uint32_t>(0), sum, lane, warp_row, warp_col);
    using out = tile_copy<rows, columns, threads>;
    Int slot[out::count];
    HEADMIX_UNROLL
    for (int p = 0; p < out::count; ++p) slot[p] = block_tile.slot(slots, out::row(thread, p));
    device.sync();
    auto const result = device.template shared<T>(0);
    int const col = out::col(thread), y_stride = static_cast<int>(y.row_stride);
    T* const to = y.data + col0 + col;
    HEADMIX_UNROLL
    for (int p = 0; p < out::count; ++p) {
      int const i = out::row(thread, p);
      if (i < block_tile.count && col0 + col < width)
        device.store16(to + Index{slot[p]} * y_stride, device.load16(result + out::layout::offset(i, col / 8)));
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
