#pragma once
// SPDX-License-Identifier: MIT
// Grouped product, one weight matrix per expert, with warpgroup MMAs. A block processes tiles of 256 slots of one
// expert and 64 or 128 columns, through the depth 64 columns of x at a time. The four warps of the first warpgroup
// gather rows of x by asynchronous copies, and one of its threads loads the weights by TMA; the other two warpgroups
// multiply, 128 slots each. Up to three further steps are in flight, those of the next tile during the stores of one.
// For a tree over products with two stacks, a tile has 64 columns of each. A sum of two products goes through the depth
// of both.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/expert_products.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/kernel/products/stage_ring.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// A ring of stages, each with rows of x and weights of one step of the depth.
template <int columns, bool transposed, class TensorMap, class Output = store_epilogue, int sources = 1>
struct grouped_gemm_warpgroups : expert_products<columns, transposed, TensorMap, Output, sources> {
  using base = expert_products<columns, transposed, TensorMap, Output, sources>;
  using base::depth, base::rows, base::warpgroup_rows, base::mma_rows, base::product_columns, base::a_bytes,
      base::b_bytes, base::consumers, base::slots, base::x;
  using typename base::sums;
  static constexpr int stages = tuning::sm90a::grouped_gemm.stages;
  static constexpr int weights_at = stages * a_bytes;
  using ring = stage_ring<stages, weights_at + stages * b_bytes>;
  /// The tile data for consumers, stored with its first step: its slots and their count, its first column and the steps
  /// of its depth, 0 without an expert. A count of 0: no further tile.
  static constexpr int count_at = rows, col_at = rows + 1, steps_at = rows + 2, tile_bytes = (rows + 4) * 4;
  static constexpr int tiles_at = (ring::end + 15) / 16 * 16;
  static_assert(tiles_at + stages * tile_bytes <= base::begins_at, "headmix: the stages reach into the result");
  static constexpr int producers = 4;  ///< number of warps
  static constexpr int steps_in_flight = tuning::sm90a::grouped_gemm.in_flight;
  static constexpr int producer_barrier = 1;  ///< of the first warpgroup

  [[nodiscard]] Index blocks(int processors) const {
    Index const most = tile_bound(slots.count(), slots.experts() + 1, rows) * this->column_tiles();
    return (std::min)(Index{processors}, most);
  }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if (device.thread() == 0) {
      ring::init(device, producers, 1, consumers);
      device.fence_proxy_async();  // visible to copies
    }
    this->read_begins(device);
    device.sync();
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<base::producer_registers>();
      produce(device);
    } else {
      device.template setmaxnreg_inc<base::consumer_registers>();
      consume(device);
    }
  }

 private:
  using copy = tile_copy<rows, depth, warpgroup_threads>;
  static constexpr int copies_of_warpgroup = warpgroup_rows / copy::rows_at_once;

  [[nodiscard]] static HEADMIX_HD constexpr int tile_at(int stage) { return tiles_at + stage * tile_bytes; }

  /// A tile, and two of its slots, those of rows `thread` and `thread` + 128; -1: none. A count of 0: no such tile.
  struct tile {
    int expert, count, col0;
    Int slot[2];
  };
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE tile find_tile(Device& device, typename base::tile_counts const& all, int number) const {
    auto const found = this->find_slots(device, all, number / this->column_tiles());
    tile t = {found.expert, found.count, number % this->column_tiles() * product_columns, {-1, -1}};
    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      int const row = i * warpgroup_rows + device.thread();
      if (row < t.count) t.slot[i] = slots.slot(found.begin + row);
    }
    return t;
  }

  template <class Device>
  HEADMIX_DEVICE void produce(Device& device) const {
    int const thread = device.thread(), grid_stride = static_cast<int>(device.blocks());
    int step = 0;
    auto const finish = [&] {
      device.cp_async_commit();
      if (step >= steps_in_flight) {
        device.template cp_async_wait<steps_in_flight>();
        ring::arrive_full(device, step - steps_in_flight);
      }
      ++step;
    };
    auto const all = this->count_tiles(device);
    int number = static_cast<int>(device.block());
    tile current = find_tile(device, all, number);
    HEADMIX_NO_UNROLL
    while (current.count > 0) {
      tile const next = find_tile(device, all, number += grid_stride);  // its slots are read while this tile is loaded
      int const steps_of_source = this->steps_of(current.expert), steps = sources * steps_of_source;
      int chunk[copy::count];  // number of the thread's 16-byte chunk of its rows of x
      HEADMIX_NO_UNROLL
      for (int s = 0; s == 0 || s < steps; ++s) {
        int const stage = ring::stage_of(step);
        int const source = sources > 1 && s >= steps_of_source ? 1 : 0, k0 = (s - source * steps_of_source) * depth;
        ring::wait_empty(device, step);
        if (thread == 0) {
          if (steps > 0) {
            this->load_weights(device, weights_at + stage * b_bytes, ring::full(device, step), current.expert,
                               current.col0, k0, source);
          } else {
            device.arrive(ring::full(device, step));
          }
        }
        if (s == 0) publish_tile(device, current, steps, stage, chunk);
        auto const to = device.template shared<bfloat16>(stage * a_bytes);
        bfloat16 const* const from = x[source].data + k0;
        HEADMIX_UNROLL
        for (int n = 0; n < copy::count; ++n) {
          // All rows of a warpgroup, if one of them exists.
          if (n % copies_of_warpgroup == 0 && (n * copy::rows_at_once >= current.count || steps == 0)) break;
          device.cp_async16(to + copy::layout::offset(copy::row(thread, n), copy::col(thread) / 8),
                            from + Index{chunk[n]} * 8, true);
        }
        finish();
      }
      current = next;
    }
    ring::wait_empty(device, step);
    if (thread == 0) {
      device.template shared<int>(tile_at(ring::stage_of(step)))[count_at] = 0;
      device.arrive(ring::full(device, step));
    }
    finish();
    device.template cp_async_wait<0>();
    for (int s = step < steps_in_flight ? 0 : step - steps_in_flight; s < step; ++s) ring::arrive_full(device, s);
  }
  /// Publishes the tile data to consumers and to the first warpgroup.
  template <class Device>
  HEADMIX_DEVICE void publish_tile(Device& device, tile const& current, int steps, int stage,
                                   int (&chunk)[copy::count]) const {
    int const thread = device.thread(), chunks_of_row = static_cast<int>(x[0].row_stride / 8);
    auto const of_tile = device.template shared<int>(tile_at(stage));
    of_tile[thread] = current.slot[0];
    of_tile[warpgroup_rows + thread] = current.slot[1];
    if (thread == 0) {
      of_tile[count_at] = current.count;
      of_tile[col_at] = current.col0;
      of_tile[steps_at] = steps;
    }
    device.template sync_named<warpgroup_threads>(producer_barrier);
    HEADMIX_UNROLL
    for (int n = 0; n < copy::count; ++n) {
      Int const slot = of_tile[copy::row(thread, n)];  // a missing row is replaced by the first
      chunk[n] = slots.row_of(slot < 0 ? Int(of_tile[0]) : slot) * chunks_of_row + copy::col(thread) / 8;
    }
  }

  template <class Device>
  HEADMIX_DEVICE void consume(Device& device) const {
    int const first_row = (device.warpgroup() - 1) * warpgroup_rows;
    sums sum = {};
    int step = 0;
    HEADMIX_NO_UNROLL
    for (;;) {
      ring::wait_full(device, step);
      auto const of_tile = device.template shared<int>(tile_at(ring::stage_of(step)));
      int const count = of_tile[count_at];
      if (count == 0) return;
      int const col0 = of_tile[col_at], steps = of_tile[steps_at];
      auto const rows_of_thread = this->read_rows(device, of_tile);
      if (steps > 0 && first_row < count) {
        multiply(device, sum, step, steps, first_row);
      } else {
        base::clear(sum);
        for (int s = 0; s == 0 || s < steps; ++s, ++step) {
          if (s > 0) ring::wait_full(device, step);
          ring::arrive_empty(device, step);
        }
      }
      if (first_row < count) this->write(device, sum, rows_of_thread, col0);
    }
  }

  /// The products of a tile's rows, from `step` on, which is advanced past them.
  template <class Device>
  HEADMIX_DEVICE void multiply(Device& device, sums& sum, int& step, int steps, int first_row) const {
    HEADMIX_NO_UNROLL
    for (int s = 0; s < steps; ++s, ++step) {
      int const stage = ring::stage_of(step);
      if (s > 0) ring::wait_full(device, step);
      this->multiply_step(device, sum, stage * a_bytes + first_row * panel_row_bytes, weights_at + stage * b_bytes,
                          s > 0);
      device.template wgmma_wait<1>();
      if (s > 0) ring::arrive_empty(device, step - 1);
    }
    device.template wgmma_wait<0>(sum[0], sum[1]);
    ring::arrive_empty(device, step - 1);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
