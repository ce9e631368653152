#pragma once
// SPDX-License-Identifier: MIT
// One weight matrix per expert with the products of warpgroups. A block has 256 slots of one expert and 64 or 128
// columns, and goes through the depth 64 columns of x at a time. The four warps of the first warpgroup gather rows of x
// by asynchronous copies, one of its threads brings the weights by TMA; the other two warpgroups multiply, 128 slots
// each, while up to three further steps are on their way.

#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/stage_ring.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::gpu {

/// A stack of matrices as one: below each other, or side by side.
struct stack_as_matrix {
  view<bfloat16 const> matrix;  ///< without data where it is neither
  int rows, cols;               ///< from one matrix of the stack to the next

  explicit stack_as_matrix(view<bfloat16 const> const& w) : matrix(w[0]), rows(0), cols(0) {
    if (w.count == 1) return;
    if (w.stack_stride == w.cols && w.row_stride >= w.count * w.cols) {
      cols = static_cast<int>(w.cols);
      matrix.cols = w.count * w.cols;
    } else if (w.row_stride > 0 && w.stack_stride % w.row_stride == 0 && w.stack_stride >= w.rows * w.row_stride) {
      rows = static_cast<int>(w.stack_stride / w.row_stride);
      matrix.rows = (w.count - 1) * rows + w.rows;
    } else {
      matrix.data = nullptr;
    }
  }
};

/// Whether an int can number the chunks of 16 bytes of the aligned rows of x.
[[nodiscard]] inline bool chunks_are_counted(view<bfloat16 const> const& x) {
  constexpr Index most = Index{1} << 31;
  Index const chunks = x.rows * (x.row_stride / 8);
  return chunks < most && -chunks < most;
}

/// bfloat16. Rows of x and y, and of w or of its transpose, are aligned; w has a multiple of 64 rows, and chunks of x
/// are counted.
template <int columns, bool transposed, class TensorMap>
struct grouped_gemm_warpgroups {
  static_assert(columns == 64 || columns == 128);
  static constexpr int threads = 3 * warpgroup_threads;
  static constexpr bool cooperative = true, warpgroups = true;
  static constexpr int rows = 256, depth = panel_columns, stages = 4;
  static constexpr int own_rows = rows / 2;  ///< of a warpgroup, in two products of 64 rows
  static constexpr int left_bytes = rows * panel_row_bytes, right_bytes = depth * columns * 2;
  static constexpr int panels = transposed ? 1 : columns / panel_columns;  ///< of a tile of weights
  static constexpr int panel_rows = transposed ? columns : depth;
  static constexpr int rights_at = stages * left_bytes;
  using ring = stage_ring<stages, rights_at + stages * right_bytes>;
  static constexpr int rows_at = ring::end, slots_at = rows_at + rows * 4;
  static constexpr int shared_bytes = slots_at + rows * 4;
  static constexpr int producers = 4, consumers = 8;  ///< warps
  static constexpr int on_their_way = 2;  ///< steps whose rows of x have not arrived when the next one is begun
  static constexpr int own_barrier = 1;   ///< and the next one: of one consumer

  view<bfloat16> y;
  view<bfloat16 const> x;
  slot_lists slots;
  int inner;                     ///< rows of a weight
  int expert_rows, expert_cols;  ///< from one weight to the next in the map
  TensorMap weights;             ///< tiles of `panel_rows` rows

  [[nodiscard]] Index blocks() const {
    return tile_bound(slots.count(), slots.experts() + 1, rows) * blocks_for(y.cols, columns);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    int const block = static_cast<int>(device.block()), across = static_cast<int>(blocks_for(y.cols, columns));
    slot_tile const mine(device, slots, block / across, rows);
    if (mine.count <= 0) return;
    int const col0 = block % across * columns;
    int const steps = mine.expert < slots.experts() ? inner / depth : 0;

    auto const row_of = device.template shared<int>(rows_at), slot_of = device.template shared<int>(slots_at);
    for (int i = device.thread(); i < rows; i += threads) {
      Int const slot = mine.slot(slots, i);
      row_of[i] = slots.row_of(slot);
      slot_of[i] = slot;
    }
    if (device.thread() == 0) {
      ring::init(device, producers + 1, consumers);
      device.fence_async();  // copies see them
    }
    device.sync();
    if (device.warpgroup() == 0) {
      device.template give_registers<56>();
      produce(device, row_of, static_cast<int>(mine.expert), col0, steps);
    } else {
      device.template take_registers<224>();
      consume(device, slot_of, mine.count, col0, steps);
    }
  }

 private:
  template <class Device, class Rows>
  HEADMIX_DEVICE void produce(Device& device, Rows const& row_of, int expert, int col0, int steps) const {
    using copy = tile_copy<rows, depth, warpgroup_threads>;
    int const thread = device.thread(), chunks_of_row = static_cast<int>(x.row_stride / 8);
    int chunk[copy::count];  // of x, of 16 bytes: where the thread's part of its rows begins
    HEADMIX_UNROLL
    for (int n = 0; n < copy::count; ++n) {
      chunk[n] = row_of[copy::row(thread, n)] * chunks_of_row + copy::col(thread) / 8;
    }
    HEADMIX_NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      int const stage = ring::stage_of(step), k0 = step * depth;
      ring::wait_empty(device, step);
      if (thread == 0) {
        device.arrive_expecting(ring::full(device, step), right_bytes);
        HEADMIX_UNROLL
        for (int i = 0; i < panels; ++i) {
          int const n = col0 + i * panel_columns;
          device.copy_tile(
              device.template shared<bfloat16>(rights_at + stage * right_bytes + i * (right_bytes / panels)), weights,
              expert * expert_rows + (transposed ? n : k0), expert * expert_cols + (transposed ? k0 : n),
              ring::full(device, step));
        }
      }
      auto const to = device.template shared<bfloat16>(stage * left_bytes);
      bfloat16 const* const from = x.data + k0;
      HEADMIX_UNROLL
      for (int n = 0; n < copy::count; ++n) {
        device.copy_async16(to + copy::layout::offset(copy::row(thread, n), copy::col(thread) / 8),
                            from + Index{chunk[n]} * 8, true);
      }
      device.commit_copies();
      if (step < on_their_way) continue;
      device.template wait_copies<on_their_way>();
      ring::arrive_full(device, step - on_their_way);
    }
    device.template wait_copies<0>();
    for (int step = steps < on_their_way ? 0 : steps - on_their_way; step < steps; ++step)
      ring::arrive_full(device, step);
  }

  template <class Device, class Slots>
  HEADMIX_DEVICE void consume(Device& device, Slots const& slot_of, int count, int col0, int steps) const {
    constexpr int blocks = columns / 8, eight_rows = 8 * panel_row_bytes;
    int const consumer = device.warpgroup() - 1, lane = device.lane();
    int const first_row = consumer * own_rows;
    float sum[2][blocks][4] = {};
    HEADMIX_NO_UNROLL
    for (int step = 0; step < steps; ++step) {
      int const stage = ring::stage_of(step);
      matrix_descriptor const left = device.describe(
          device.template shared<bfloat16>(stage * left_bytes + first_row * panel_row_bytes), 16, eight_rows);
      matrix_descriptor const right = device.describe(device.template shared<bfloat16>(rights_at + stage * right_bytes),
                                                      right_bytes / panels, eight_rows);
      ring::wait_full(device, step);
      device.fence_products(sum[0], sum[1]);
      HEADMIX_UNROLL
      for (int k = 0; k < depth / 16; ++k) {
        HEADMIX_UNROLL
        for (int half = 0; half < 2; ++half) {
          matrix_descriptor const a = left.after(half * (own_rows / 2 * panel_row_bytes) + 32 * k);
          if constexpr (transposed) {
            device.multiply_tiles(sum[half], a, right.after(32 * k), true);
          } else {
            device.multiply_across(sum[half], a, right.after(16 * panel_row_bytes * k), true);
          }
        }
      }
      device.commit_products();
      device.template wait_products<1>();
      if (step > 0) ring::arrive_empty(device, step - 1);
    }
    device.template wait_products<0>(sum[0], sum[1]);

    // The sums go where rows of x were, which the products of all four warps have read.
    device.template sync_named<warpgroup_threads>(own_barrier + consumer);
    int const own = first_row + device.warp() % 4 * 16;  // and 64 rows below
    constexpr int chunks = columns / 8, at_once = 32 / chunks;
    int const chunk = lane % chunks, col = col0 + 8 * chunk, y_stride = static_cast<int>(y.row_stride);
    int const width = static_cast<int>(y.cols);
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      HEADMIX_UNROLL
      for (int j = 0; j < blocks; ++j) {
        auto const pairs = device.template shared<std::uint32_t>(j / 8 * left_bytes);
        HEADMIX_UNROLL
        for (int below = 0; below < 2; ++below) {
          int const r = own + half * (own_rows / 2) + 8 * below + lane / 4;
          pairs[tile_layout<panel_columns>::offset(r, j % 8) / 2 + lane % 4] =
              pack(sum[half][j][2 * below], sum[half][j][2 * below + 1]);
        }
      }
      device.sync_warp();
      auto const made = device.template shared<bfloat16>(chunk / 8 * left_bytes);
      HEADMIX_UNROLL
      for (int i = 0; i < 16; i += at_once) {
        int const r = own + half * (own_rows / 2) + i + lane / chunks;
        if (r < count && col < width) {
          device.store16(y.data + Index{slot_of[r]} * y_stride + col,
                         device.load16(made + tile_layout<panel_columns>::offset(r, chunk % 8)));
        }
      }
    }
  }
};

/// What grouped_gemm_tensor does, by warpgroups; false where they do not do it: the queue has none, the depth is no
/// multiple of 64, or the weights are no matrix. Rows of x and y, and of w or (`transposed`) of its transpose, are
/// aligned.
template <bool transposed, class Queue>
bool grouped_gemm_by_warpgroups(Queue& queue, view<bfloat16> y, view<bfloat16 const> x, view<bfloat16 const> w,
                                slot_lists const& slots) {
  if constexpr (WarpgroupQueue<Queue>) {
    if (!queue.warpgroups() || w.count == 0 || w.rows % panel_columns != 0 || !chunks_are_counted(x)) return false;
    stack_as_matrix const all(transposed ? w.transposed() : w);
    if (all.matrix.data == nullptr) return false;
    auto const launch = [&]<int columns>(std::integral_constant<int, columns>) {
      using kernel = grouped_gemm_warpgroups<columns, transposed, typename Queue::tensor_map>;
      kernel const k{
          y, x, slots, static_cast<int>(w.rows), all.rows, all.cols, queue.map_tensor(all.matrix, kernel::panel_rows)};
      queue.launch(k, k.blocks());
    };
    if (y.cols <= 64) {
      launch(std::integral_constant<int, 64>{});
    } else {
      launch(std::integral_constant<int, 128>{});
    }
    return true;
  } else {
    return false;
  }
}

}  // namespace headmix::gpu

HEADMIX_END_QUIET_BOUNDS
