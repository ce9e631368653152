#pragma once
// SPDX-License-Identifier: MIT
// Products with the weights of experts of small depth, such as the projections from heads: the gathered rows stay in
// shared memory while the columns of the weights stream through.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The tiles of grouped_gemm_resident.
struct resident_rows {
  static constexpr int rows = tuning::sm80::resident.rows, columns = tuning::sm80::resident.columns;
  static constexpr int depth = tuning::sm80::resident.depth, max_depth = tuning::sm80::resident.max_steps * depth;
  static constexpr int stages = tuning::sm80::resident.stages;
};

/// Tensor-core kernel: 128 slots x `tiles` times 128 columns by four warps, two by two. Rows of x and y, and of w or
/// its transpose, are aligned; w has at most 128 rows. The next steps of the depth are loaded during the products of
/// one, and those of the next tile during the stores of a tile.
template <Half T, bool transposed>
struct grouped_gemm_resident : resident_rows {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  static constexpr int a_bytes = rows * depth * 2, b_bytes = depth * columns * 2;
  static constexpr int stages_at = max_depth / depth * a_bytes;
  static constexpr int slots_at = stages_at + stages * b_bytes;
  static constexpr int shared_bytes = slots_at + rows * 4;

  view<T> y;
  view<T const> x, w;
  slot_lists slots;
  int tiles;  ///< of columns, per block: all, unless that gives too few blocks

  grouped_gemm_resident(view<T> to, view<T const> from, view<T const> weight, slot_lists const& lists)
      : y(to), x(from), w(weight), slots(lists), tiles(1) {
    constexpr Index enough = tuning::sm80::resident.blocks;
    tiles = static_cast<int>((std::clamp)(row_tiles() * column_tiles() / enough, Index{1}, column_tiles()));
  }

  [[nodiscard]] HEADMIX_HD Index column_tiles() const { return blocks_for(y.cols, columns); }
  [[nodiscard]] Index row_tiles() const { return tile_bound(slots.count(), slots.experts() + 1, rows); }
  [[nodiscard]] Index blocks() const { return row_tiles() * blocks_for(column_tiles(), tiles); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const all_tiles = static_cast<int>(column_tiles()), tile_groups = (all_tiles + tiles - 1) / tiles;
    int const block = static_cast<int>(device.block());
    slot_tile const block_tile(device, slots, block / tile_groups, rows);
    if (block_tile.count <= 0) return;
    int const first_tile = block % tile_groups * tiles;
    int const block_tiles = all_tiles - first_tile < tiles ? all_tiles - first_tile : tiles;
    int const thread = device.thread(), lane = device.lane(), warp = device.warp();
    bool const has_expert = block_tile.expert < slots.experts();
    int const inner = static_cast<int>(w.rows), width = static_cast<int>(w.cols);
    bool const two = inner > depth;  // steps of the depth
    int const steps = has_expert ? block_tiles << two : 0;

    auto const row_slots = device.template shared<int>(slots_at);
    static_assert(rows == threads, "headmix: each thread has one row");
    row_slots[thread] = block_tile.slot(slots, thread);
    device.sync();
    if (has_expert) {
      int const x_stride = static_cast<int>(x.row_stride);
      HEADMIX_UNROLL
      for (int k0 = 0; k0 < max_depth; k0 += depth) {
        if (k0 >= inner) break;
        tile_copy<rows, depth, threads>::start(
            device, device.template shared<T>(k0 / depth * a_bytes), thread, block_tile.count, inner - k0,
            [&](int, int i) { return x.data + k0 + Index{slots.row_of(row_slots[i])} * x_stride; });
      }
    }
    int const w_stride = static_cast<int>(transposed ? w.col_stride : w.row_stride);
    T const* const weight = w.data + (has_expert ? block_tile.expert * w.stack_stride : 0);
    auto const b_stage = [&](int stage) { return device.template shared<T>(stages_at + stage * b_bytes); };
    auto const start = [&](int step, int stage) {
      if (step < steps) {
        int const k0 = two && step % 2 != 0 ? depth : 0, col0 = (first_tile + (step >> two)) * columns;
        if constexpr (transposed) {
          tile_copy<columns, depth, threads>::start(
              device, b_stage(stage), thread, width - col0, inner - k0,
              [&](int, int j) { return weight + k0 + Index{col0 + j} * w_stride; });
        } else {
          tile_copy<depth, columns, threads>::start(
              device, b_stage(stage), thread, inner - k0, width - col0,
              [&](int, int k) { return weight + (Index{k0} + k) * w_stride + col0; });
        }
      }
      device.cp_async_commit();
    };

    constexpr int m = 2, n = columns / 16;  // a warp has twice 16 m x 8 n accumulators
    int const warp_row = warp / 2 * (32 * m), warp_col = warp % 2 * (8 * n);
    fragment_position<depth, true> const a_position(lane, warp_row, 0);
    fragment_position<transposed ? depth : columns, !transposed> const b_position(lane, transposed ? warp_col : 0,
                                                                                  transposed ? 0 : warp_col);
    HEADMIX_UNROLL
    for (int step = 0; step < stages - 1; ++step) start(step, step);
    int stage = 0, last = stages - 1, step = 0;
    for (int tile = 0; tile < block_tiles; ++tile) {
      float sum[2][m][n][4] = {};
      HEADMIX_NO_UNROLL
      for (int end = has_expert ? step + 1 + two : 0; step < end; ++step) {
        device.template cp_async_wait<stages - 2>();
        device.sync();  // this step's tile has arrived, and all threads have read the last step's
        start(step + stages - 1, last);
        auto const a_tile = device.template shared<T>(two && step % 2 != 0 ? a_bytes : 0);
        auto const b_tile = b_stage(stage);
        HEADMIX_UNROLL
        for (int k = 0; k < depth; k += 16) {
          words<4> a[2][m], b[n / 2];
          HEADMIX_UNROLL
          for (int i = 0; i < 2 * m; ++i) a[i / m][i % m] = load_a(device, a_tile, a_position, 16 * i, k);
          HEADMIX_UNROLL
          for (int j = 0; j < n / 2; ++j) {
            if constexpr (transposed) {
              b[j] = load_b_transposed(device, b_tile, b_position, 16 * j, k);
            } else {
              b[j] = load_b(device, b_tile, b_position, k, 16 * j);
            }
          }
          HEADMIX_UNROLL
          for (int i = 0; i < 2; ++i) multiply_add<m, n, T>(device, sum[i], a[i], b);
        }
        last = stage;
        stage = stage + 1 == stages ? 0 : stage + 1;
      }

      // Through the shared memory of the last tile, a quarter for each warp, for stores of whole rows.
      device.sync();
      constexpr int out_rows = 16 * m, out_columns = 8 * n, chunks = out_columns / 8;
      static_assert(4 * out_rows * out_columns * 2 <= b_bytes,
                    "headmix: the result does not fit where the right operand was");
      int const result_at = stages_at + last * b_bytes + warp * (out_rows * out_columns * 2);
      auto const result = device.template shared<T>(result_at);
      int const chunk = lane % chunks, col = (first_tile + tile) * columns + warp_col + 8 * chunk;
      int const y_stride = static_cast<int>(y.row_stride);
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        device.sync_warp();
        store_accumulators<out_columns, T>(device.template shared<std::uint32_t>(result_at), sum[half], lane, 0, 0);
        device.sync_warp();
        HEADMIX_UNROLL
        for (int i = lane / chunks; i < out_rows; i += 32 / chunks) {
          int const r = warp_row + half * out_rows + i;
          if (r < block_tile.count && col < width) {
            device.store16(y.data + Index{row_slots[r]} * y_stride + col,
                           device.load16(result + tile_layout<out_columns>::offset(i, chunk)));
          }
        }
      }
    }
    device.template cp_async_wait<0>();
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
