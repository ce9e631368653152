#pragma once
// SPDX-License-Identifier: MIT
// The gradient of one weight matrix per expert with the products of warpgroups. A block has 256 x 128 elements of one
// expert's matrix, or 128 x 256 where it has few rows, and goes through its slots, or a part of them, 64 at a time. The
// four warps of the first warpgroup gather rows of x and g by asynchronous copies; the other two multiply, 128 x 128
// elements each, with slots as the depth.

#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/stage_ring.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// bfloat16; rows of y, x and g are aligned. `tall`: 256 x 128 elements, by rows of the two warpgroups; else 128 x 256,
/// by columns.
template <bool tall>
struct grouped_outer_warpgroups {
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = tall ? 256 : 128, columns = tall ? 128 : 256, depth = 64, stages = 4;
  static constexpr int panel_bytes = depth * panel_row_bytes;  ///< 64 slots x 64 columns of x or g
  static constexpr int left_panels = rows / panel_columns, right_panels = columns / panel_columns;
  static constexpr int stage_bytes = (left_panels + right_panels) * panel_bytes;
  using ring = stage_ring<stages, stages * stage_bytes>;
  static constexpr int shared_bytes = ring::end;
  static constexpr int producers = 4, consumers = 8;  ///< warps
  static constexpr int on_their_way = 2;              ///< steps whose rows have not arrived when the next one is begun
  static constexpr int own_barrier = 1;               ///< and the next one: of one consumer

  view<bfloat16> y;
  view<bfloat16 const> x, g;
  slot_lists slots;   ///< row_of: the row of x
  divisor g_per_row;  ///< slots of a row of g
  bool accumulate;
  int parts;       ///< blocks that share the slots of a tile
  float* partial;  ///< of more than one part the sums, [parts, experts, y.rows, y.cols]

  [[nodiscard]] Index blocks() const {
    return y.count * blocks_for(y.rows, rows) * blocks_for(y.cols, columns) * parts;
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    slots_of_matrix_tile const mine(slots, device.block(), height, width, rows, columns, parts, depth);
    if (mine.steps == 0 && accumulate && parts == 1) return;

    if (device.thread() == 0) {
      ring::init(device, producers, consumers);
      device.fence_async();
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template give_registers<56>();
      produce(device, mine);
    } else {
      device.template take_registers<224>();
      consume(device, mine);
    }
  }

 private:
  [[nodiscard]] static HEADMIX_HD constexpr int left_at(int stage, int panel) {
    return stage * stage_bytes + panel * panel_bytes;
  }
  [[nodiscard]] static HEADMIX_HD constexpr int right_at(int stage, int panel) {
    return left_at(stage, left_panels + panel);
  }

  template <class Device>
  HEADMIX_DEVICE void produce(Device& device, slots_of_matrix_tile const& mine) const {
    using copy = tile_copy<depth, panel_columns, warpgroup_threads>;
    int const thread = device.thread(), height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    int const x_stride = static_cast<int>(x.row_stride), g_stride = static_cast<int>(g.row_stride);
    int const col = copy::col(thread);
    // The slots that this thread copies rows of, read two steps ahead; -1 behind the end. Steps take turns with two
    // sets of registers: to move one to the other would wait for what is read.
    Int slots_of_even[copy::count], slots_of_odd[copy::count];
    auto const read_slots = [&](Int(&slot)[copy::count], int step) {
      HEADMIX_UNROLL
      for (int n = 0; n < copy::count; ++n) {
        int const place = step * depth + copy::row(thread, n);
        slot[n] = place < mine.count ? slots.slot(mine.begin + place) : Int{-1};
      }
    };
    auto const bring_step = [&](Int(&slot)[copy::count], int step) {
      int const stage = ring::stage_of(step);
      ring::wait_empty(device, step);
      bfloat16 const *of_x[copy::count], *of_g[copy::count];
      bool real[copy::count];
      HEADMIX_UNROLL
      for (int n = 0; n < copy::count; ++n) {
        real[n] = slot[n] >= 0;
        Int const known = real[n] ? slot[n] : 0;
        of_x[n] = x.data + Index{slots.row_of(known)} * x_stride + (mine.row0 + col);
        of_g[n] = g.data + Index{known / g_per_row} * g_stride + (mine.col0 + col);
      }
      read_slots(slot, step + 2);
      // A panel, of which `left` columns are there.
      auto const bring = [&](bfloat16 const* const(&of)[copy::count], int i, int at, int left) {
        bool there[copy::count];
        HEADMIX_UNROLL
        for (int n = 0; n < copy::count; ++n) there[n] = real[n] && col < left - i * panel_columns;
        copy::start_found(device, device.template shared<bfloat16>(at), thread, of, there, i * panel_columns);
      };
      HEADMIX_UNROLL
      for (int i = 0; i < left_panels; ++i) bring(of_x, i, left_at(stage, i), height - mine.row0);
      HEADMIX_UNROLL
      for (int i = 0; i < right_panels; ++i) bring(of_g, i, right_at(stage, i), width - mine.col0);
      device.commit_copies();
      if (step < on_their_way) return;
      device.template wait_copies<on_their_way>();
      ring::arrive_full(device, step - on_their_way);
    };
    read_slots(slots_of_even, 0);
    read_slots(slots_of_odd, 1);
    HEADMIX_NO_UNROLL
    for (int step = 0; step < mine.steps; step += 2) {
      bring_step(slots_of_even, step);
      if (step + 1 < mine.steps) bring_step(slots_of_odd, step + 1);
    }
    device.template wait_copies<0>();
    for (int step = mine.steps < on_their_way ? 0 : mine.steps - on_their_way; step < mine.steps; ++step)
      ring::arrive_full(device, step);
  }

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device, slots_of_matrix_tile const& mine) const {
    constexpr int blocks = 128 / 8, eight_rows = 8 * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const height = static_cast<int>(y.rows), width = static_cast<int>(y.cols);
    // Its panels of 64 rows, and of 64 columns.
    int const first_left = tall ? 2 * consumer : 0, first_right = tall ? 0 : 2 * consumer;
    float sum[2][blocks][4] = {};
    HEADMIX_NO_UNROLL
    for (int step = 0; step < mine.steps; ++step) {
      int const stage = ring::stage_of(step);
      matrix_descriptor const left =
          device.describe(device.template shared<bfloat16>(left_at(stage, first_left)), panel_bytes, eight_rows);
      matrix_descriptor const right =
          device.describe(device.template shared<bfloat16>(right_at(stage, first_right)), panel_bytes, eight_rows);
      ring::wait_full(device, step);
      device.fence_products(sum[0], sum[1]);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          device.multiply_both_across(sum[half], left.after(half * panel_bytes + k * 16 * panel_row_bytes),
                                      right.after(k * 16 * panel_row_bytes), true);
        }
      }
      device.commit_products();
      device.template wait_products<1>();
      if (step > 0) ring::arrive_empty(device, step - 1);
    }
    device.template wait_products<0>(sum[0], sum[1]);

    int const own = device.warp() % 4 * 16;  // of 64 rows
    int const my_row0 = mine.row0 + first_left * panel_columns, my_col0 = mine.col0 + first_right * panel_columns;
    // f(two sums side by side, their row, their column) for those that there are.
    auto const each = [&](auto const& f) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        HEADMIX_UNROLL
        for (int below = 0; below < 2; ++below) {
          int const row = my_row0 + half * panel_columns + own + 8 * below + lane / 4;
          HEADMIX_UNROLL
          for (int j = 0; j < blocks; ++j) {
            int const col = my_col0 + 8 * j + lane % 4 * 2;
            if (row < height && col < width) f(sum[half][j][2 * below], sum[half][j][2 * below + 1], row, col);
          }
        }
      }
    };
    if (parts > 1) {
      float* const to = partial + (mine.part * y.count + mine.expert) * y.rows * y.cols;
      each([&](float low, float high, int row, int col) {
        device.store(reinterpret_cast<float_pair*>(to + Index{row} * width + col), float_pair{low, high});
      });
      return;
    }
    bfloat16* const made = y.data + mine.expert * y.stack_stride;
    if (accumulate) {
      each([&](float& low, float& high, int row, int col) {
        std::uint32_t const old = device.load(reinterpret_cast<std::uint32_t const*>(made + row * y.row_stride + col));
        low += low_of(old);
        high += high_of(old);
      });
    }
    // Through panels that only this warpgroup reads, whose products have ended, so that whole rows are written.
    auto const staged_at = [&](int half, int panel) {
      return tall ? left_at(panel, first_left + half) : right_at(half, first_right + panel);
    };
    device.template sync_named<warpgroup_threads>(own_barrier + consumer);
    int const chunk = lane % 16, col = my_col0 + 8 * chunk;
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int j = 0; j < blocks; ++j) {
        auto const pairs = device.template shared<std::uint32_t>(staged_at(half, j / 8));
        HEADMIX_UNROLL
        for (int below = 0; below < 2; ++below) {
          pairs[tile_layout<panel_columns>::offset(own + 8 * below + lane / 4, j % 8) / 2 + lane % 4] =
              pack(sum[half][j][2 * below], sum[half][j][2 * below + 1]);
        }
      }
      device.sync_warp();
      auto const staged = device.template shared<bfloat16>(staged_at(half, chunk / 8));
      HEADMIX_UNROLL
      for (int i = lane / 16; i < 16; i += 2) {
        int const row = my_row0 + half * panel_columns + own + i;
        if (row < height && col < width) {
          device.store16(made + row * y.row_stride + col,
                         device.load16(staged + tile_layout<panel_columns>::offset(own + i, chunk % 8)));
        }
      }
    }
  }
};

/// What grouped_outer_tensor does, by warpgroups; false where they do not do it: the queue has none, or the matrices
/// are small.
template <class Queue>
bool grouped_outer_by_warpgroups(Queue& queue, view<bfloat16> y, view<bfloat16 const> x, view<bfloat16 const> g,
                                 slot_lists const& slots, divisor g_per_row, bool accumulate, int parts,
                                 float* partial) {
  if constexpr (WarpgroupQueue<Queue>) {
    constexpr Index few = 64, many = 128;  // of rows or columns
    if (!queue.warpgroups() || y.rows <= few || y.cols <= few || (y.rows <= many && y.cols <= many)) return false;
    auto const launch = [&](auto const& kernel) { queue.launch(kernel, kernel.blocks()); };
    if (y.rows > many) {
      launch(grouped_outer_warpgroups<true>{y, x, g, slots, g_per_row, accumulate, parts, partial});
    } else {
      launch(grouped_outer_warpgroups<false>{y, x, g, slots, g_per_row, accumulate, parts, partial});
    }
    return true;
  } else {
    return false;
  }
}

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS
