#pragma once
// SPDX-License-Identifier: MIT
// The ring of key and value tiles in shared memory of warpgroup attention: the four warps of one warpgroup fill it, the
// other warpgroups multiply.

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/kernel/attention/tensor_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The offset of chunk c of row i in panels of `rows` rows, in elements.
template <int rows>
[[nodiscard]] HEADMIX_HD constexpr int panel_offset(int i, int c) {
  return c / 8 * (rows * panel_columns) + tile_layout<panel_columns>::offset(i, c % 8);
}

/// The tiles in which non-finite rows that not all rows see are zeroed and marked.
enum class sanitized_tiles { keys, values };

/// A ring of `stages` tiles of `keys` keys and values of `width` columns, from byte `begin` of shared memory on, which
/// `consumers` warps read. The sanitized tiles are those multiplied by probabilities or their gradients: 0 times a
/// non-finite number would be NaN. A tile may extend beyond the end of its sequence.
template <int keys, int width, int stages, sanitized_tiles to_sanitize, int consumers, int begin>
struct attention_ring {
  static constexpr int panels = width / panel_columns, panel_bytes = keys * panel_row_bytes;
  static constexpr int tile_bytes = panels * panel_bytes;
  static constexpr int barriers_at = begin + stages * 2 * tile_bytes;
  static constexpr int non_finite_at = barriers_at + 5 * stages * 8;
  static constexpr int end = non_finite_at + stages * keys * 4;
  static constexpr int sanitizer_warps = 3;

  [[nodiscard]] static HEADMIX_HD constexpr int stage_of(int tile) { return tile % stages; }
  /// Phase n of a barrier is for the n-th tile in its stage.
  [[nodiscard]] static HEADMIX_HD constexpr int parity_of(int tile) { return tile / stages % 2; }
  [[nodiscard]] static HEADMIX_HD constexpr int keys_at(int stage) { return begin + 2 * stage * tile_bytes; }
  [[nodiscard]] static HEADMIX_HD constexpr int values_at(int stage) { return keys_at(stage) + tile_bytes; }

  /// Full: the tile has arrived. Sanitized: its non-finite rows are zeroed. Empty: all have read it.
  template <class Device>
  struct barriers {
    typename Device::template shared_pointer<std::uint64_t> at;

    HEADMIX_DEVICE explicit barriers(Device& device) : at(device.template shared<std::uint64_t>(barriers_at)) {}
    [[nodiscard]] HEADMIX_DEVICE auto keys_full(int i) const { return at + i; }
    [[nodiscard]] HEADMIX_DEVICE auto values_full(int i) const { return at + (stages + i); }
    [[nodiscard]] HEADMIX_DEVICE auto keys_empty(int i) const { return at + (2 * stages + i); }
    [[nodiscard]] HEADMIX_DEVICE auto values_empty(int i) const { return at + (3 * stages + i); }
    [[nodiscard]] HEADMIX_DEVICE auto sanitized(int i) const { return at + (4 * stages + i); }

    /// Called by one thread, before a barrier of the block.
    HEADMIX_DEVICE void init(Device& device) const {
      constexpr bool of_keys = to_sanitize == sanitized_tiles::keys;
      for (int i = 0; i < stages; ++i) {
        device.mbarrier_init(keys_full(i), 1);
        device.mbarrier_init(values_full(i), 1);
        device.mbarrier_init(keys_empty(i), (consumers + (of_keys ? sanitizer_warps : 0)) * warp_arrivals);
        device.mbarrier_init(values_empty(i), (consumers + (of_keys ? 0 : sanitizer_warps)) * warp_arrivals);
        device.mbarrier_init(sanitized(i), sanitizer_warps * warp_arrivals);
      }
      device.fence_proxy_async();  // visible to copies
    }
  };
  /// Flags of the non-finite rows of a stage, one per row.
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto non_finite_rows(Device& device, int stage) {
    return device.template shared<int>(non_finite_at + stage * keys * 4);
  }

  /// Called by all four warps: loads `count` tiles from key `first_key` on.
  template <class Device, class TensorMap>
  static HEADMIX_DEVICE void fill(Device& device, TensorMap const& of_keys, TensorMap const& of_values,
                                  small_keys const& all_keys, tile_visible_range const& visible_range, int first_key,
                                  int count) {
    if (device.warp() > 0) {
      sanitize(device, visible_range, first_key, count);
    } else if (device.lane() == 0) {
      copy(device, of_keys, of_values, all_keys, first_key, count);
    }
  }

 private:
  /// One thread loads the tiles.
  template <class Device, class TensorMap>
  static HEADMIX_DEVICE void copy(Device& device, TensorMap const& of_keys, TensorMap const& of_values,
                                  small_keys const& all_keys, int first_key, int count) {
    barriers<Device> const b(device);
    HEADMIX_NO_UNROLL
    for (int tile = 0; tile < count; ++tile) {
      int const stage = stage_of(tile), row = all_keys.begin + first_key + tile * keys;
      auto const load_tile = [&](TensorMap const& from, int at, auto const& empty, auto const& full) {
        device.mbarrier_wait(empty, parity_of(tile) ^ 1);  // immediate for the first tiles
        device.arrive_expect_tx(full, tile_bytes);
        HEADMIX_UNROLL
        for (int i = 0; i < panels; ++i) {
          device.tma_load(device.template shared<bfloat16>(at + i * panel_bytes), from, row,
                          all_keys.col + i * panel_columns, full);
        }
      };
      load_tile(of_keys, keys_at(stage), b.keys_empty(stage), b.keys_full(stage));
      load_tile(of_values, values_at(stage), b.values_empty(stage), b.values_full(stage));
    }
  }

  /// Three warps zero and mark non-finite rows.
  template <class Device>
  static HEADMIX_DEVICE void sanitize(Device& device, tile_visible_range const& visible_range, int first_key,
                                      int count) {
    constexpr bool of_keys = to_sanitize == sanitized_tiles::keys;
    constexpr int chunks = width / 8, at_once = 32 / chunks;
    constexpr std::uint32_t high = 0x7F800000u, low = 0x7F80u;  // exponents of infinity
    barriers<Device> const b(device);
    int const lane = device.lane(), chunk = lane % chunks;
    HEADMIX_NO_UNROLL
    for (int tile = 0; tile < count; ++tile) {
      int const stage = stage_of(tile), first = first_key + tile * keys;
      device.mbarrier_wait(of_keys ? b.keys_full(stage) : b.values_full(stage), parity_of(tile));
      if (!visible_range.covers(first, first + keys)) {
        auto const rows = device.template shared<bfloat16>(of_keys ? keys_at(stage) : values_at(stage));
        auto const non_finite = non_finite_rows(device, stage);
        HEADMIX_NO_UNROLL
        for (int r = (device.warp() - 1) * at_once; r < keys; r += sanitizer_warps * at_once) {
          int const row = r + lane / chunks;
          auto const at = rows + panel_offset<keys>(row, chunk);
          bool found = false;
          words<4> const eight = device.load16(at);
          HEADMIX_UNROLL
          for (std::uint32_t const both : eight.word) found = found || (both & high) == high || (both & low) == low;
          std::uint32_t const of_row = device.ballot(found) >> (lane / chunks * chunks) & ((1u << chunks) - 1);
          if (of_row != 0) device.store16(at, words<4>{});
          if (chunk == 0) non_finite[row] = of_row != 0 ? 1 : 0;
        }
        device.fence_proxy_async();
        arrive_by_warp(device, b.sanitized(stage));
      }
      arrive_by_warp(device, of_keys ? b.keys_empty(stage) : b.values_empty(stage));
    }
  }
};

/// Gathers the rows of a warpgroup into panels of `rows` rows, from row `first_row` on; the warpgroup synchronises
/// afterwards. source(r) is the address of row r of the tile, or null.
template <int rows, int warpgroup_rows, int width, class Device, class Pointer, class Source>
HEADMIX_DEVICE void gather_panels(Device& device, Pointer tile, int first_row, Source const& source) {
  using copy = tile_copy<warpgroup_rows, panel_columns, warpgroup_threads>;
  int const thread = device.thread() % warpgroup_threads;
  bfloat16 const* from[copy::count];
  bool valid[copy::count];
  HEADMIX_UNROLL
  for (int n = 0; n < copy::count; ++n) {
    from[n] = source(first_row + copy::row(thread, n));
    valid[n] = from[n] != nullptr;
    from[n] += copy::col(thread);
  }
  HEADMIX_UNROLL
  for (int i = 0; i < width / panel_columns; ++i) {
    copy::start_from(device, tile + (i * rows + first_row) * panel_columns, thread, from, valid, i * panel_columns);
  }
}

/// Stores the rounded sums of a warp as 16 rows of panels, from row `warp_row` on.
template <int rows, int n, class Device>
HEADMIX_DEVICE void store_panel_accumulators(Device& device, int at, float const (&sums)[n][4], int warp_row) {
  auto const pairs = device.template shared<std::uint32_t>(at);
  HEADMIX_UNROLL
  for (int j = 0; j < n; ++j) {
    HEADMIX_UNROLL
    for (int half = 0; half < 2; ++half) {
      pairs[panel_offset<rows>(warp_row + 8 * half + device.lane() / 4, j) / 2 + device.lane() % 4] =
          pack(sums[j][2 * half], sums[j][2 * half + 1]);
    }
  }
  device.sync_warp();
}
/// The assignment of these 16 rows to 32 lanes, 16 bytes each: lane l reads the same columns of `count` rows.
template <int width>
struct panel_chunks {
  static constexpr int chunks = width / 8, at_once = 32 / chunks, count = 16 / at_once;

  /// The n-th row of a lane, of 16.
  [[nodiscard]] static HEADMIX_HD constexpr int row(int lane, int n) { return n * at_once + lane / chunks; }
  [[nodiscard]] static HEADMIX_HD constexpr int chunk(int lane) { return lane % chunks; }
};
/// Calls f(n, row, first column, eight numbers) for the lane's part of these 16 rows.
template <int rows, int width, class Device, class F>
HEADMIX_DEVICE void for_each_panel_chunk(Device& device, int at, int warp_row, F const& f) {
  using lanes = panel_chunks<width>;
  int const chunk = lanes::chunk(device.lane());
  HEADMIX_UNROLL
  for (int n = 0; n < lanes::count; ++n) {
    int const r = warp_row + lanes::row(device.lane(), n);
    f(n, r, 8 * chunk, device.load16(device.template shared<bfloat16>(at) + panel_offset<rows>(r, chunk)));
  }
}

/// A block of three warpgroups that has 128 rows of a list and loops over the visible keys, as in attention and its
/// gradient of queries. Its memory starts at byte `begin` of shared memory.
template <AttentionMask Mask, int width, sanitized_tiles to_sanitize, int begin>
struct attention_row_block {
  static constexpr int threads = 3 * warpgroup_threads, rows = 128, keys = tuning::sm90a::attention.keys;
  static constexpr int warpgroup_rows = rows / 2;
  using ring = attention_ring<keys, width, tuning::sm90a::attention.stages, to_sanitize, 8, begin>;
  static constexpr int row_ranges_at = ring::end, row_offsets_at = row_ranges_at + 3 * rows * 4,
                       end = row_offsets_at + 2 * rows * 4;

  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto row_ranges(Device& device) {
    return device.template shared<int>(row_ranges_at);
  }
  template <class Device>
  [[nodiscard]] static HEADMIX_DEVICE auto row_offsets(Device& device) {
    auto const numbers = device.template shared<int>(row_offsets_at);
    return shared_row_offsets<2, std::remove_cv_t<decltype(numbers)>>{numbers};
  }

  /// The first warpgroup loads the keys, with `producer_registers` per thread; the others, with
  /// `consumer_registers`, call consume(keys visible to all rows, first key, number of key tiles, row
  /// list).
  template <int producer_registers, int consumer_registers, class Device, class TensorMap, class Consume>
  static HEADMIX_DEVICE void run(Device& device, attention_extents const& x, attention_tiles const& tiles,
                                 row_divisors const& divisors, TensorMap const& of_keys, TensorMap const& of_values,
                                 Consume const& consume) {
    attention_tile const block_tile = tiles(device, device.block());
    small_row_list const list(x, block_tile.sequence, block_tile.list, divisors);
    if (block_tile.first >= list.length()) return;
    small_keys const all_keys(x, block_tile, divisors, width);
    int const left = static_cast<int>(block_tile.rows_of(list.length()));
    if (device.thread() == 0) typename ring::template barriers<Device>(device).init(device);
    compute_row_offsets<Mask, rows, width, threads>(device, list, static_cast<int>(block_tile.first), left, divisors,
                                                    all_keys.count, row_offsets(device), row_ranges(device));
    device.sync();
    tile_visible_range visible_range = {0, all_keys.count, 0, all_keys.count};
    if constexpr (!std::is_same_v<Mask, full>) {
      visible_range = visible_range_of_rows<Mask>(device, row_ranges(device), left < rows ? left : rows);
    }
    int const first_visible = visible_range.begin < visible_range.end ? visible_range.begin : visible_range.end;
    int const first = first_visible / keys * keys;  // if no row sees a key, the range begins at the largest number
    int const count = (visible_range.end - first + keys - 1) / keys;
    if (device.warpgroup() == 0) {
      device.template setmaxnreg_dec<producer_registers>();
      ring::fill(device, of_keys, of_values, all_keys, visible_range, first, count);
    } else {
      device.template setmaxnreg_inc<consumer_registers>();
      consume(visible_range, first, count, static_cast<int>(block_tile.list));
    }
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
