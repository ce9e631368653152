#pragma once
// SPDX-License-Identifier: MIT
// The slots of experts, and the tile of a block.

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The slots of experts: perm holds them in expert order, offsets the first of each expert. Slots without an expert
/// follow. Slot s belongs to row s / per_row.
struct slot_lists {
  view<Int const> perm, offsets;
  divisor per_row;

  slot_lists(view<Int const> p, view<Int const> o, Index slots_per_row) : perm(p), offsets(o), per_row(slots_per_row) {}

  [[nodiscard]] HEADMIX_HD Index count() const { return perm.cols; }
  [[nodiscard]] HEADMIX_HD Index experts() const { return offsets.cols - 1; }
  /// The first slot of expert e; expert number experts() stands for no expert.
  [[nodiscard]] HEADMIX_DEVICE Index begin(Index e) const { return e > experts() ? count() : offsets(0, e); }
  [[nodiscard]] HEADMIX_DEVICE Index end(Index e) const { return begin(e + 1); }
  [[nodiscard]] HEADMIX_DEVICE Int slot(Index i) const { return perm(0, i); }
  [[nodiscard]] HEADMIX_DEVICE Int row_of(Int slot) const { return slot / per_row; }
};

/// At most `rows` slots of one expert, or of none.
struct slot_tile {
  Index expert, begin;
  int count;  ///< empty if not positive

  /// Tile number t of the tile_bound(slots, experts + 1, rows) tiles. All lanes of the warp call: the result is that of
  /// segment_of_tile, with 32 offsets tested at a time.
  template <class Device>
  HEADMIX_DEVICE slot_tile(Device& device, slot_lists const& slots, Index t, int rows) {
    Index const segments = slots.experts() + 1;
    expert = -1;
    for (Index e = device.lane();; e += 32) {
      int const begun = count_bits(device.ballot(e < segments && slots.begin(e) / rows + e <= t));
      expert += begun;
      if (begun < 32) break;
    }
    Index const first = slots.begin(expert);
    begin = first + first_row_of_tile(t, expert, first, rows);
    Index const left = slots.end(expert) - begin;
    count = static_cast<int>(left < rows ? left : rows);
  }
  /// The slot of row i of the tile; a missing row gets the slot of an existing one.
  [[nodiscard]] HEADMIX_DEVICE Int slot(slot_lists const& slots, int i) const {
    return slots.slot(begin + (i < count ? i : 0));
  }
};

/// A tile of an expert's matrix, which is a sum over its slots, and the block's part of these slots, divided into
/// steps.
struct slots_of_matrix_tile {
  Index expert, begin;
  int part, row0, col0;
  int count, steps;  ///< from `begin` on; empty if not positive

  /// Blocks are numbered by expert, then by part, then by tiles of `rows` x `columns`.
  HEADMIX_DEVICE slots_of_matrix_tile(slot_lists const& slots, Index block_number, int height, int width, int rows,
                                      int columns, int parts, int depth) {
    int const block = static_cast<int>(block_number), column_tiles = (width + columns - 1) / columns;
    int const tiles = (height + rows - 1) / rows * column_tiles;
    part = block / tiles % parts;
    expert = block / (tiles * parts);
    row0 = block % tiles / column_tiles * rows;
    col0 = block % column_tiles * columns;
    Index const all_begin = slots.begin(expert), all_end = slots.end(expert);
    Index const each = blocks_for(blocks_for(all_end - all_begin, parts), depth) * depth;
    begin = all_begin + part * each;
    count = static_cast<int>((begin + each < all_end ? begin + each : all_end) - begin);
    steps = count > 0 ? (count + depth - 1) / depth : 0;
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
