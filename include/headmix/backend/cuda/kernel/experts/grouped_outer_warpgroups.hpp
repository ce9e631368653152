#pragma once
// SPDX-License-Identifier: MIT
// The gradient of one weight matrix per expert with warpgroup MMAs. A block processes tiles of 256 x 128 elements of
// one expert's matrix, or 128 x 256 if it has few rows, and loops over its slots, or a part of them, 64 at a time. The
// four warps of the first warpgroup gather rows of x and g by asynchronous copies; the other two multiply, 128 x 128
// elements each, with slots as the depth. With accumulation, the previous y is loaded through the ring, after the
// slots.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/products/stage_ring.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// bfloat16; rows of y, x and g are aligned. `tall`: 256 x 128 elements, divided by rows among the two warpgroups;
/// otherwise 128 x 256, by columns.
template <bool tall>
struct grouped_outer_warpgroups {
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int long_side = tuning::sm90a::grouped_outer.long_side, side = tuning::sm90a::grouped_outer.side;
  static constexpr int rows = tall ? long_side : side, columns = tall ? side : long_side;
  static constexpr int depth = tuning::sm90a::grouped_outer.depth, stages = tuning::sm90a::grouped_outer.stages;
  static constexpr int producer_registers = tuning::sm90a::grouped_outer.registers.producer;
  static constexpr int consumer_registers = tuning::sm90a::grouped_outer.registers.consumer;
  static constexpr int panel_bytes = depth * panel_row_bytes;  ///< 64 slots x 64 columns of x or g
  static constexpr int a_panels = rows / panel_columns, b_panels = columns / panel_columns;
  static constexpr int stage_bytes = (a_panels + b_panels) * panel_bytes;
  using ring = stage_ring<stages, stages * stage_bytes>;
  static constexpr int shared_bytes = ring::end;
  static constexpr int producers = 4, consumers = 8;  ///< numbers of warps
  static constexpr int steps_in_flight = tuning::sm90a::grouped_outer.in_flight;
  static constexpr int consumer_rows = 128;  ///< rows and columns of a consumer
  static constexpr int previous_panel_bytes = consumer_rows * panel_row_bytes;
  static_assert(consumer_rows / panel_columns * previous_panel_bytes <= stage_bytes,
                "headmix: the old values do not fit in a stage");

  view<bfloat16> y;
  view<bfloat16 const> x, g;
  slot_lists slots;   ///< row_of: the row of x
  divisor g_per_row;  ///< slots of a row of g
  bool accumulate;
  int parts;       ///< number of blocks that share the slots of a tile
  float* partial;  ///< sums of several parts, [parts, experts, y.rows, y.cols]

  [[nodiscard]] HEADMIX_HD int tiles() const {
    return static_cast<int>(y.count * blocks_for(y.rows, rows) * blocks_for(y.cols, columns)) * parts;
  }
  [[nodiscard]] Index blocks(int processors) const { return (std::min)(processors, tiles()); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (device.thread() == 0) {
      ring::init(device, producers, 0, consumers);
      device.fence_proxy_async();
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<producer_registers>();
      int step = 0;
      for_each_tile(device, [&](slots_of_matrix_tile const& block_tile) { produce(device, block_tile, step); });
    } else {
      device.template setmaxnreg_inc<consumer_registers>();
      int step = 0;
      for_each_tile(device, [&](slots_of_matrix_tile const& block_tile) { consume(device, block_tile, step); });
    }
  }

 private:
  /// Calls f(tile) for the block's nonempty tiles.
  template <class Device, class F>
  HEADMIX_DEVICE void for_each_tile(Device& device, F const& f) const {
    int const height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    HEADMIX_NO_UNROLL
    for (int tile = static_cast<int>(device.block()); tile < tiles(); tile += static_cast<int>(device.blocks())) {
      slots_of_matrix_tile const block_tile(slots, tile, height, width, rows, columns, parts, depth);
      if (block_tile.steps > 0 || !loads_previous()) f(block_tile);
    }
  }
  [[nodiscard]] static HEADMIX_HD constexpr int a_at(int stage, int panel) {
    return stage * stage_bytes + panel * panel_bytes;
  }
  [[nodiscard]] static HEADMIX_HD constexpr int b_at(int stage, int panel) { return a_at(stage, a_panels + panel); }
  /// The first row and column of a consumer's elements in its tile.
  [[nodiscard]] static HEADMIX_HD constexpr int consumer_row(int consumer) {
    return tall ? consumer * consumer_rows : 0;
  }
  [[nodiscard]] static HEADMIX_HD constexpr int consumer_col(int consumer) {
    return tall ? 0 : consumer * consumer_rows;
  }
  /// True if the steps after the last, one for each consumer, load the previous y.
  [[nodiscard]] HEADMIX_HD bool loads_previous() const { return accumulate && parts == 1; }

  /// Loads a tile, from global step `at` on, which is advanced past it.
  template <class Device>
  HEADMIX_DEVICE void produce(Device& device, slots_of_matrix_tile const& block_tile, int& at) const {
    using copy = tile_copy<depth, panel_columns, warpgroup_threads>;
    int const thread = device.thread(), height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    int const x_stride = static_cast<int>(x.row_stride), g_stride = static_cast<int>(g.row_stride);
    int const col = copy::col(thread);
    // A warp copies 16 rows of a step. Its lanes read the slots of two steps at once, two steps ahead: half of the
    // lanes one slot each of the first step, the others of the second; -1 after the end.
    int const lane = device.lane();
    auto const row_of_lane = [&](int of) {
      return copy::row(device.warp() * 32, 0) + of % 4 + of / 4 * copy::rows_at_once;
    };
    static_assert(copy::count == 4 && 32 / tile_layout<panel_columns>::chunks == 4,
                  "headmix: a thread copies four chunks, and four rows share a panel's chunks");
    auto const read_slot = [&](int step) {
      int const position = (step + lane / 16) * depth + row_of_lane(lane % 16);
      return position < block_tile.count ? slots.slot(block_tile.begin + position) : Int{-1};
    };
    int arrived = at;  // steps whose rows have arrived
    auto const finish = [&] {
      device.cp_async_commit();
      if (at++ - arrived < steps_in_flight) return;
      device.template cp_async_wait<steps_in_flight>();
      ring::arrive_full(device, arrived++);
    };
    // The rows of x and of g of the lane's slot; -1: none. `second`: 1 for the second of the two steps.
    auto const load_step = [&](Int row_of_x, Int row_of_g, int second) {
      int const stage = ring::stage_of(at);
      ring::wait_empty(device, at);
      bfloat16 const *of_x[copy::count], *of_g[copy::count];
      bool valid[copy::count];
      HEADMIX_UNROLL
      for (int n = 0; n < copy::count; ++n) {
        int const from = 16 * second + 4 * n + lane / tile_layout<panel_columns>::chunks;
        Int const x_row = device.shuffle(row_of_x, from), g_row = device.shuffle(row_of_g, from);
        valid[n] = x_row >= 0;
        of_x[n] = x.data + Index{valid[n] ? x_row : 0} * x_stride + (block_tile.row0 + col);
        of_g[n] = g.data + Index{valid[n] ? g_row : 0} * g_stride + (block_tile.col0 + col);
      }
      // A panel, of which `left` columns exist.
      auto const load_panel = [&](bfloat16 const* const(&of)[copy::count], int i, int begin, int left) {
        bool in_bounds[copy::count];
        HEADMIX_UNROLL
        for (int n = 0; n < copy::count; ++n) in_bounds[n] = valid[n] && col < left - i * panel_columns;
        copy::start_from(device, device.template shared<bfloat16>(begin), thread, of, in_bounds, i * panel_columns);
      };
      HEADMIX_UNROLL
      for (int i = 0; i < a_panels; ++i) load_panel(of_x, i, a_at(stage, i), height - block_tile.row0);
      HEADMIX_UNROLL
      for (int i = 0; i < b_panels; ++i) load_panel(of_g, i, b_at(stage, i), width - block_tile.col0);
      finish();
    };
    auto const load_previous = [&](int consumer) {
      using previous_copy = tile_copy<consumer_rows, panel_columns, warpgroup_threads>;
      int const row0 = block_tile.row0 + consumer_row(consumer), col0 = block_tile.col0 + consumer_col(consumer);
      bfloat16 const* const old = y.data + block_tile.expert * y.stack_stride;
      ring::wait_empty(device, at);
      HEADMIX_UNROLL
      for (int i = 0; i < consumer_rows / panel_columns; ++i) {
        int const first = col0 + i * panel_columns;
        previous_copy::start(
            device, device.template shared<bfloat16>(ring::stage_of(at) * stage_bytes + i * previous_panel_bytes),
            thread, height - row0, width - first, [&](int, int r) {
              int const row = row0 + r < height ? row0 + r : 0;
              return old + row * y.row_stride + (first < width ? first : 0);
            });
      }
      finish();
    };
    Int slot = read_slot(0);
    HEADMIX_NO_UNROLL
    for (int step = 0; step < block_tile.steps; step += 2) {
      Int const next = read_slot(step + 2);
      Int const row_of_x = slot < 0 ? -1 : slots.row_of(slot), row_of_g = slot < 0 ? -1 : slot / g_per_row;
      load_step(row_of_x, row_of_g, 0);
      if (step + 1 < block_tile.steps) load_step(row_of_x, row_of_g, 1);
      slot = next;
    }
    if (loads_previous()) {
      load_previous(0);
      load_previous(1);
    }
    device.template cp_async_wait<0>();
    while (arrived < at) ring::arrive_full(device, arrived++);
  }

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device, slots_of_matrix_tile const& block_tile, int& at) const {
    constexpr int blocks = consumer_rows / 8, eight_rows = 8 * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    // The consumer's panels of 64 rows, and of 64 columns.
    int const first_left = tall ? 2 * consumer : 0, first_right = tall ? 0 : 2 * consumer;
    float sum[2][blocks][4] = {};
    HEADMIX_NO_UNROLL
    for (int step = 0; step < block_tile.steps; ++step, ++at) {
      int const stage = ring::stage_of(at);
      matrix_descriptor const left =
          device.describe(device.template shared<bfloat16>(a_at(stage, first_left)), panel_bytes, eight_rows);
      matrix_descriptor const right =
          device.describe(device.template shared<bfloat16>(b_at(stage, first_right)), panel_bytes, eight_rows);
      ring::wait_full(device, at);
      device.wgmma_fence(sum[0], sum[1]);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          device.wgmma_mn_mn(sum[half], left.after(half * panel_bytes + k * 16 * panel_row_bytes),
                             right.after(k * 16 * panel_row_bytes), true);
        }
      }
      device.wgmma_commit();
      device.template wgmma_wait<1>();
      if (step > 0) ring::arrive_empty(device, at - 1);
    }
    device.template wgmma_wait<0>(sum[0], sum[1]);
    if (block_tile.steps > 0) ring::arrive_empty(device, at - 1);

    int const thread_row = device.warp() % 4 * 16 + lane / 4;  // of 64 rows, and 8 rows below
    if (loads_previous()) {
      HEADMIX_NO_UNROLL
      for (int of = 0; of < 2; ++of, ++at) {
        ring::wait_full(device, at);
        if (of == consumer) add_previous(device, sum, ring::stage_of(at) * stage_bytes, thread_row);
        ring::arrive_empty(device, at);
      }
    }
    int const height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    int const row0 = block_tile.row0 + consumer_row(consumer) + thread_row,
              col0 = block_tile.col0 + consumer_col(consumer);
    float* const to_part = partial + (block_tile.part * y.count + block_tile.expert) * y.rows * y.cols;
    bfloat16* const result = y.data + block_tile.expert * y.stack_stride;
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int below = 0; below < 2; ++below) {
        int const row = row0 + half * panel_columns + 8 * below;
        if (parts > 1) {
          HEADMIX_UNROLL
          for (int j = 0; j < blocks; ++j) {
            int const col = col0 + 8 * j + lane % 4 * 2;
            if (row >= height || col >= width) continue;
            device.store(reinterpret_cast<float_pair*>(to_part + Index{row} * width + col),
                         float_pair{sum[half][j][2 * below], sum[half][j][2 * below + 1]});
          }
          continue;
        }
        HEADMIX_UNROLL
        for (int j = 0; j < blocks; j += 4) {
          words<4> eight;
          HEADMIX_UNROLL
          for (int n = 0; n < 4; ++n)
            eight.word[n] = pack(sum[half][j + n][2 * below], sum[half][j + n][2 * below + 1]);
          transpose_words(device, eight);
          int const col = col0 + 8 * (j + lane % 4);
          if (row < height && col < width) device.store16(result + row * y.row_stride + col, eight);
        }
      }
    }
  }
  /// Adds the content of the panels from `begin` on.
  template <class Device>
  static HEADMIX_DEVICE void add_previous(Device& device, float (&sum)[2][consumer_rows / 8][4], int begin,
                                          int thread_row) {
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int j = 0; j < consumer_rows / 8; ++j) {
        auto const pairs = device.template shared<std::uint32_t const>(begin + j / 8 * previous_panel_bytes);
        HEADMIX_UNROLL
        for (int below = 0; below < 2; ++below) {
          int const row = half * panel_columns + thread_row + 8 * below;
          std::uint32_t const old = pairs[tile_layout<panel_columns>::offset(row, j % 8) / 2 + device.lane() % 4];
          sum[half][j][2 * below] += low_of(old);
          sum[half][j][2 * below + 1] += high_of(old);
        }
      }
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
