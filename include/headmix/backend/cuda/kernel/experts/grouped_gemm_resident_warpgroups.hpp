#pragma once
// SPDX-License-Identifier: MIT
// Warpgroup products with the weights of experts of small depth: 256 gathered rows of up to 256 columns stay in shared
// memory while the columns of the weights stream through, 128 at a time, so that rows are read once and not once per
// tile of columns. Two warps gather rows by asynchronous copies, a third loads weights by TMA, two warpgroups multiply.
// The next rows are loaded as the last columns free their space.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/products/stage_ring.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// expert_products for weights of at most 256 rows. A block processes items: 256 slots and a group of column tiles.
template <bool transposed, class TensorMap, class Output = store_epilogue>
struct grouped_gemm_resident_warpgroups
    : expert_products<tuning::sm90a::grouped_gemm.columns, transposed, TensorMap, Output> {
  using base = expert_products<tuning::sm90a::grouped_gemm.columns, transposed, TensorMap, Output>;
  using base::depth, base::rows, base::warpgroup_rows, base::mma_rows, base::product_columns, base::a_bytes,
      base::b_bytes, base::consumers, base::slots, base::x;
  using typename base::sums;
  static constexpr int max_steps = tuning::sm90a::resident.max_steps, max_depth = max_steps * depth;
  static constexpr int stages = tuning::sm90a::resident.stages;
  static constexpr int weights_at = max_steps * a_bytes;
  /// Rings for the depth steps of an item's rows, and of weights.
  using row_ring = stage_ring<max_steps, weights_at + stages * b_bytes>;
  using weight_ring = stage_ring<stages, row_ring::end>;
  /// The item data for consumers, stored with its first rows: the slots and their count, the first column and the end
  /// column, and the steps of the depth, 0 without an expert. A count of 0: no further item.
  static constexpr int count_at = rows, col_at = rows + 1, end_at = rows + 2, steps_at = rows + 3;
  static constexpr int item_bytes = (rows + 4) * 4, items_at = (weight_ring::end + 15) / 16 * 16;
  static constexpr int chunks_at = items_at + max_steps * item_bytes;  ///< offsets of rows of x, for gathering
  static_assert(chunks_at + rows * 4 <= base::begins_at,
                "headmix: the numbers of rows reach into the resident weights");
  static constexpr int gather_threads = tuning::sm90a::resident.gather_threads, gather_barrier = 1;

  int groups;  ///< number of groups of column tiles

  [[nodiscard]] Index blocks(int processors) const {
    return (std::min)(Index{processors}, tile_bound(slots.count(), slots.experts() + 1, rows) * groups);
  }
  /// The number of groups that gives every multiprocessor some items.
  [[nodiscard]] static int groups_for(Index slots, int column_tiles, int processors) {
    constexpr Index enough = tuning::sm90a::resident.items;
    return static_cast<int>((std::clamp)(enough * processors / (slots / rows + 1), Index{1}, Index{column_tiles}));
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (device.thread() == 0) {
      row_ring::init(device, gather_threads / 32, 0, consumers);
      weight_ring::init(device, 0, 1, consumers);
      device.fence_proxy_async();  // visible to copies
    }
    this->read_begins(device);
    device.sync();
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<base::producer_registers>();
      if (device.warp() == 0) load_all_weights(device);
      if (device.warp() >= 2) gather(device);
    } else {
      device.template setmaxnreg_inc<base::consumer_registers>();
      consume(device);
    }
  }

 private:
  using copy = tile_copy<mma_rows, depth, gather_threads>;
  static constexpr int slots_of_thread = rows / gather_threads;

  [[nodiscard]] static HEADMIX_HD constexpr int item_at(int step) {
    return items_at + row_ring::stage_of(step) * item_bytes;
  }
  /// The first column of item `number`: a multiple of product_columns, at most the first multiple at or beyond the last
  /// column.
  [[nodiscard]] HEADMIX_DEVICE int first_col(int number) const {
    return number % groups * this->column_tiles() / groups * product_columns;
  }
  [[nodiscard]] HEADMIX_DEVICE int end_col(int number) const {
    return (number % groups + 1) * this->column_tiles() / groups * product_columns;
  }

  template <class Device>
  HEADMIX_DEVICE void load_all_weights(Device& device) const {
    int const grid_stride = static_cast<int>(device.blocks());
    auto const all = this->count_tiles(device);
    int step = 0;
    HEADMIX_NO_UNROLL
    for (int number = static_cast<int>(device.block());; number += grid_stride) {
      auto const current = this->find_slots(device, all, number / groups);
      if (current.count == 0) return;
      int const steps = this->steps_of(current.expert), end = end_col(number);
      HEADMIX_NO_UNROLL
      for (int col0 = first_col(number); col0 < end; col0 += product_columns) {
        HEADMIX_NO_UNROLL
        for (int s = 0; s < steps; ++s, ++step) {
          weight_ring::wait_empty(device, step);
          if (device.lane() == 0) {
            this->load_weights(device, weights_at + weight_ring::stage_of(step) * b_bytes,
                               weight_ring::full(device, step), current.expert, col0, s * depth);
          }
        }
      }
    }
  }

  /// A tile, and the slots of its rows that the thread publishes; -1: none.
  struct item {
    typename base::slots_of_tile tile;
    Int slot[slots_of_thread];
  };
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE item find_item(Device& device, typename base::tile_counts const& all, int number) const {
    item i = {this->find_slots(device, all, number / groups), {}};
    HEADMIX_UNROLL
    for (int n = 0; n < slots_of_thread; ++n) {
      int const row = n * gather_threads + device.thread() % gather_threads;
      i.slot[n] = row < i.tile.count ? slots.slot(i.tile.begin + row) : Int{-1};
    }
    return i;
  }
  template <class Device>
  HEADMIX_DEVICE void gather(Device& device) const {
    int const thread = device.thread() % gather_threads, grid_stride = static_cast<int>(device.blocks());
    auto const chunks = device.template shared<int>(chunks_at);
    auto const all = this->count_tiles(device);
    int step = 0, number = static_cast<int>(device.block());
    item current = find_item(device, all, number);
    HEADMIX_NO_UNROLL
    while (current.tile.count > 0) {
      item const next = find_item(device, all, number + grid_stride);  // its slots are read while this item is loaded
      int const steps = this->steps_of(current.tile.expert), first = step;
      HEADMIX_NO_UNROLL
      for (int s = 0; s == 0 || s < steps; ++s, ++step) {
        row_ring::wait_empty(device, step);
        if (s == 0) publish_item(device, current, number, step, steps);
        auto const to = device.template shared<bfloat16>(row_ring::stage_of(step) * a_bytes);
        bfloat16 const* const from = x[0].data + s * depth + copy::col(thread);
        // All rows of a warpgroup, if one of them exists.
        int const end = steps == 0 ? 0 : current.tile.count > warpgroup_rows ? rows : warpgroup_rows;
        HEADMIX_NO_UNROLL
        for (int row0 = 0; row0 < end; row0 += mma_rows) {
          HEADMIX_UNROLL
          for (int n = 0; n < copy::count; ++n) {
            int const row = row0 + copy::row(thread, n);
            device.cp_async16(to + copy::layout::offset(row, copy::col(thread) / 8), from + Index{chunks[row]} * 8,
                              true);
          }
        }
        device.cp_async_commit();
        if (s >= 2) {
          device.template cp_async_wait<2>();
          row_ring::arrive_full(device, step - 2);
        }
      }
      // All steps arrive now: there is no room for further rows before these are read.
      if (step - first >= 2) {
        device.template cp_async_wait<1>();
        row_ring::arrive_full(device, step - 2);
      }
      device.template cp_async_wait<0>();
      row_ring::arrive_full(device, step - 1);
      current = next;
      number += grid_stride;
    }
    row_ring::wait_empty(device, step);
    if (thread == 0) device.template shared<int>(item_at(step))[count_at] = 0;
    row_ring::arrive_full(device, step);
  }
  /// Publishes the item data to consumers and gathering warps.
  template <class Device>
  HEADMIX_DEVICE void publish_item(Device& device, item const& current, int number, int step, int steps) const {
    int const thread = device.thread() % gather_threads, chunks_of_row = static_cast<int>(x[0].row_stride / 8);
    auto const of_item = device.template shared<int>(item_at(step));
    auto const chunks = device.template shared<int>(chunks_at);
    device.template sync_named<gather_threads>(gather_barrier);  // all threads have read the last item's data
    HEADMIX_UNROLL
    for (int n = 0; n < slots_of_thread; ++n) {
      int const row = n * gather_threads + thread;
      Int const slot = current.slot[n];
      of_item[row] = slot;
      // A missing row is replaced by an existing one.
      chunks[row] = slots.row_of(slot < 0 ? slots.slot(current.tile.begin) : slot) * chunks_of_row;
    }
    if (thread == 0) {
      of_item[count_at] = current.tile.count;
      of_item[col_at] = first_col(number);
      of_item[end_at] = end_col(number);
      of_item[steps_at] = steps;
    }
    device.template sync_named<gather_threads>(gather_barrier);
  }

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device) const {
    int const first_row = (device.warpgroup() - 1) * warpgroup_rows;
    sums sum = {};
    int row_step = 0, weight_step = 0;
    HEADMIX_NO_UNROLL
    for (;;) {
      row_ring::wait_full(device, row_step);
      auto const of_item = device.template shared<int>(item_at(row_step));
      int const count = of_item[count_at];
      if (count == 0) return;
      int const end = of_item[end_at], steps = of_item[steps_at];
      int col0 = of_item[col_at];
      auto const rows_of_thread = this->read_rows(device, of_item);
      HEADMIX_NO_UNROLL
      for (; col0 < end; col0 += product_columns) {
        bool const last = col0 + product_columns >= end;  // then the rows are released
        if (first_row >= count) {
          for (int s = 0; s < steps; ++s) {
            row_ring::wait_full(device, row_step + s);
            weight_ring::wait_full(device, weight_step + s);
            release(device, row_step + s, weight_step + s, last);
          }
        } else if (steps == 0) {
          sums zeros = {};  // not `sum`: it would not stay in registers where branches join
          this->write(device, zeros, rows_of_thread, col0);
        } else {
          multiply(device, sum, row_step, weight_step, steps, first_row, last);
          this->write(device, sum, rows_of_thread, col0);
        }
        weight_step += steps;
      }
      if (steps == 0) row_ring::arrive_empty(device, row_step);
      row_step += steps > 0 ? steps : 1;
    }
  }
  template <class Device>
  HEADMIX_DEVICE void release(Device& device, int row_step, int weight_step, bool last) const {
    weight_ring::arrive_empty(device, weight_step);
    if (last) row_ring::arrive_empty(device, row_step);
  }
  /// The products of an item's rows with a tile of columns.
  template <class Device>
  HEADMIX_DEVICE void multiply(Device& device, sums& sum, int row_step, int weight_step, int steps, int first_row,
                               bool last) const {
    HEADMIX_NO_UNROLL
    for (int s = 0; s < steps; ++s) {
      row_ring::wait_full(device, row_step + s);
      weight_ring::wait_full(device, weight_step + s);
      this->multiply_step(device, sum, row_ring::stage_of(row_step + s) * a_bytes + first_row * panel_row_bytes,
                          weights_at + weight_ring::stage_of(weight_step + s) * b_bytes, s > 0);
      device.template wgmma_wait<1>();
      if (s > 0) release(device, row_step + s - 1, weight_step + s - 1, last);
    }
    device.template wgmma_wait<0>(sum[0], sum[1]);
    release(device, row_step + steps - 1, weight_step + steps - 1, last);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
