#pragma once
// SPDX-License-Identifier: MIT
// The gradient of one weight matrix per expert: y_e (+)= the sum over the slots s of expert e of x_{s / x_slots}^T g_{s
// / g_slots}. A block computes a tile of one expert's matrix and loops over its slots, gathering their rows of x and g.
// If there are few tiles, several blocks share the slots of a tile, and a second launch adds their sums in order.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/products/product_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Plain kernel for any type and strides: product tiles.
template <class T>
struct grouped_outer_plain {
  static constexpr int threads = product_tile::threads, tile = product_tile::size, depth = product_tile::depth;
  static constexpr bool cooperative = true;
  static constexpr int blocks_at = 2 * depth * tile * static_cast<int>(sizeof(accumulator_t<T>));
  static constexpr int shared_bytes = blocks_at + tile * tile * static_cast<int>(sizeof(accumulator_t<T>));
  static constexpr Index block = product_tile::block;

  view<T> y;
  view<T const> x, g;
  slot_lists slots;   ///< row_of: the row of x
  divisor g_per_row;  ///< slots of a row of g
  bool accumulate;

  [[nodiscard]] Index blocks() const { return y.count * blocks_for(y.rows, tile) * blocks_for(y.cols, tile); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    using wide = accumulator_t<T>;
    Index const column_tiles = blocks_for(y.cols, tile), tiles = blocks_for(y.rows, tile) * column_tiles;
    Index const expert = device.block() / tiles;
    Index const row0 = device.block() % tiles / column_tiles * tile, col0 = device.block() % column_tiles * tile;
    Index const begin = slots.begin(expert), end = slots.end(expert);
    int const thread = device.thread();
    product_tile const accumulators(thread);
    auto const a_tile = device.template shared<wide>(0);
    auto const b_tile = device.template shared<wide>(depth * tile * static_cast<int>(sizeof(wide)));

    auto const blocks = device.template shared<wide>(blocks_at + thread * static_cast<int>(sizeof(wide)));
    wide sum[4][4] = {};
    for (Index first = begin; first < end; first += depth) {
      if (first > begin && (first - begin) % block == 0)
        product_tile::add_block(blocks, sum, first - begin == block, false);
      HEADMIX_UNROLL
      for (int p = 0; p < tile * depth / threads; ++p) {
        int const k = thread / tile + p * (threads / tile), i = thread % tile;
        bool const valid = first + k < end;
        Int const slot = valid ? slots.slot(first + k) : 0;
        a_tile[k * tile + i] = valid && row0 + i < y.rows
                                   ? static_cast<wide>(x.row(slots.row_of(slot))[(row0 + i) * x.col_stride])
                                   : wide(0);
        b_tile[k * tile + i] = valid && col0 + i < y.cols
                                   ? static_cast<wide>(g.row(slot / g_per_row)[(col0 + i) * g.col_stride])
                                   : wide(0);
      }
      device.sync();
      accumulators.multiply_add(sum, a_tile, tile, b_tile);
      device.sync();
    }
    if (end - begin > block) product_tile::add_block(blocks, sum, false, true);
    view<T> const result = y[expert];
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      HEADMIX_UNROLL
      for (int j = 0; j < 4; ++j) {
        Index const row = row0 + accumulators.row + 16 * i, col = col0 + accumulators.col + 16 * j;
        if (row >= y.rows || col >= y.cols) continue;
        wide const old = accumulate ? static_cast<wide>(device.load(&result(row, col))) : wide(0);
        device.store(&result(row, col), static_cast<T>(old + sum[i][j]));
      }
    }
  }
};

/// Tensor-core kernel: `rows` x `columns` elements by four warps, two by two; rows are aligned. The next steps of slots
/// are loaded during the products of one.
template <Half T, int columns, int rows = tuning::sm80::grouped_outer.rows>
struct grouped_outer_tensor {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int depth = tuning::sm80::grouped_outer.depth, stages = tuning::sm80::grouped_outer.stages;
  static constexpr int a_bytes = depth * rows * 2, b_bytes = depth * columns * 2;
  static constexpr int shared_bytes = stages * (a_bytes + b_bytes);
  static_assert(rows * columns * 2 <= shared_bytes, "headmix: the result does not fit in shared memory");

  view<T> y;
  view<T const> x, g;
  slot_lists slots;   ///< row_of: the row of x
  divisor g_per_row;  ///< slots of a row of g
  bool accumulate;
  int parts;       ///< number of blocks that share the slots of a tile
  float* partial;  ///< sums of several parts, [parts, experts, y.rows, y.cols]

  [[nodiscard]] Index blocks() const {
    return y.count * blocks_for(y.rows, rows) * blocks_for(y.cols, columns) * parts;
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    slots_of_matrix_tile const block_tile(slots, device.block(), height, width, rows, columns, parts, depth);
    if (block_tile.steps == 0 && accumulate && parts == 1) return;
    Index const expert = block_tile.expert, begin = block_tile.begin;
    int const part = block_tile.part, row0 = block_tile.row0, col0 = block_tile.col0, count = block_tile.count,
              steps = block_tile.steps;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();

    // The slots whose rows this thread copies, read one step ahead.
    using a_copy = tile_copy<depth, rows, threads>;
    using b_copy = tile_copy<depth, columns, threads>;
    Int a_slot[a_copy::count], b_slot[b_copy::count];
    auto const read_slots = [&](int step) {
      int const first = step * depth;
      HEADMIX_UNROLL
      for (int p = 0; p < a_copy::count; ++p) {
        int const position = first + a_copy::row(thread, p);
        a_slot[p] = position < count ? slots.slot(begin + position) : 0;
      }
      HEADMIX_UNROLL
      for (int p = 0; p < b_copy::count; ++p) {
        int const position = first + b_copy::row(thread, p);
        b_slot[p] = position < count ? slots.slot(begin + position) : 0;
      }
    };
    int const x_stride = static_cast<int>(x.row_stride), g_stride = static_cast<int>(g.row_stride);
    T const *const a0 = x.data + row0, *const b0 = g.data + col0;
    auto const start = [&](int step, int stage) {
      a_copy::start(device, device.template shared<T>(stage * a_bytes), thread, count - step * depth, height - row0,
                    [&](int p, int) { return a0 + Index{slots.row_of(a_slot[p])} * x_stride; });
      b_copy::start(device, device.template shared<T>(stages * a_bytes + stage * b_bytes), thread, count - step * depth,
                    width - col0, [&](int p, int) { return b0 + Index{b_slot[p] / g_per_row} * g_stride; });
    };

    constexpr int m = rows / 32, n = columns / 16;  // a warp has 16 m x 8 n accumulators
    int const warp_row = warp / 2 * (16 * m), warp_col = warp % 2 * (8 * n);
    fragment_position<rows, false> const a_position(lane, 0, warp_row);
    fragment_position<columns, true> const b_position(lane, 0, warp_col);
    float sum[m][n][4] = {};
    read_slots(0);
    HEADMIX_UNROLL
    for (int step = 0; step < stages - 1; ++step) {
      if (step < steps) start(step, step);
      read_slots(step + 1);
      device.cp_async_commit();
    }
    int stage = 0, next = stages - 1;
    for (int step = 0; step < steps; ++step) {
      device.template cp_async_wait<stages - 2>();
      device.sync();  // this step's tiles have arrived, and all threads have read the last step's
      if (step + stages - 1 < steps) start(step + stages - 1, next);
      read_slots(step + stages);
      device.cp_async_commit();
      auto const a_tile = device.template shared<T>(stage * a_bytes);
      auto const b_tile = device.template shared<T>(stages * a_bytes + stage * b_bytes);
      HEADMIX_UNROLL
      for (int k = 0; k < depth; k += 16) {
        words<4> a[m], b[n / 2];
        HEADMIX_UNROLL
        for (int i = 0; i < m; ++i) a[i] = load_a_transposed(device, a_tile, a_position, k, 16 * i);
        HEADMIX_UNROLL
        for (int j = 0; j < n / 2; ++j) b[j] = load_b(device, b_tile, b_position, k, 16 * j);
        multiply_add<m, n, T>(device, sum, a, b);
      }
      stage = stage + 1 == stages ? 0 : stage + 1;
      next = next + 1 == stages ? 0 : next + 1;
    }

    if (parts > 1) {
      float* const to = partial + (part * y.count + expert) * y.rows * y.cols;
      HEADMIX_UNROLL
      for (int i = 0; i < m; ++i) {
        HEADMIX_UNROLL
        for (int j = 0; j < n; ++j) {
          HEADMIX_UNROLL
          for (int c = 0; c < 4; ++c) {
            int const row = row0 + warp_row + 16 * i + lane / 4 + c / 2 * 8,
                      col = col0 + warp_col + 8 * j + lane % 4 * 2 + c % 2;
            if (row < height && col < width) device.store(to + Index{row} * width + col, sum[i][j][c]);
          }
        }
      }
      return;
    }

    // Through shared memory, for loads and stores of whole rows.
    device.template cp_async_wait<0>();
    device.sync();
    using out = tile_copy<rows, columns, threads>;
    auto const result = device.template shared<T>(0);
    int const col = out::col(thread);
    T* const to = y.data + expert * y.stack_stride + row0 * y.row_stride + col0 + col;
    if (accumulate) {
      HEADMIX_UNROLL
      for (int p = 0; p < out::count; ++p) {
        int const i = out::row(thread, p);
        bool const valid = row0 + i < height && col0 + col < width;
        device.store16(result + out::layout::offset(i, col / 8),
                       valid ? device.load16(to + i * y.row_stride) : words<4>{});
      }
      device.sync();
    }
    store_accumulators<columns, T>(device.template shared<std::uint32_t>(0), sum, lane, warp_row, warp_col, accumulate);
    device.sync();
    HEADMIX_UNROLL
    for (int p = 0; p < out::count; ++p) {
      int const i = out::row(thread, p);
      if (row0 + i < height && col0 + col < width)
        device.store16(to + i * y.row_stride, device.load16(result + out::layout::offset(i, col / 8)));
    }
  }
};

/// y (+)= the sum of the parts of grouped_outer_tensor, in order; a thread has 8 elements of a row.
template <Half T>
struct grouped_outer_sum {
  static constexpr int threads = tuning::sm80::outer_sum_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  float const* partial;
  int parts;
  bool accumulate;

  [[nodiscard]] Index blocks() const { return blocks_for(y.size() / 8, threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const first = (device.block() * threads + device.thread()) * 8;
    if (first >= y.size()) return;
    T* const to = y.row(first / y.cols) + first % y.cols;
    words<4> result = accumulate ? device.load16(to) : words<4>{};
    float sum[8] = {};
    for (int part = 0; part < parts; ++part) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        words<4> const four = device.load16(partial + part * y.size() + first + 4 * half);
        HEADMIX_UNROLL
        for (int i = 0; i < 4; ++i) sum[4 * half + i] += __builtin_bit_cast(float, four.word[i]);
      }
    }
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      std::uint32_t& word = result.word[i];
      word = pack<T>(low_of<T>(word) + sum[2 * i], high_of<T>(word) + sum[2 * i + 1]);
    }
    device.store16(to, result);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
