#pragma once
// SPDX-License-Identifier: MIT
// The tiles of the row lists of chosen heads, and the keys that each of them sees, computed once for all blocks of
// keys.

#include "headmix/backend/cuda/kernel/attention/tile.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"

namespace headmix::cuda_kernels {

/// A tile of rows of a list of chosen heads, and its visible keys.
struct listed_tile {
  tile_visible_range visible_range;
  int first, count;  ///< its elements of the list
  int head, unused;
};
/// All tiles of the lists, numbered as in segment_of_tile: those of lists with the same keys are consecutive. Null
/// unless heads are chosen.
struct listed_tiles {
  listed_tile* data = nullptr;

  static Index count(attention_extents const& x, Index rows) {
    if (!x.heads_are_chosen()) return 0;
    return tile_bound(x.queries.rows * x.rows_per_token, x.queries.count * x.heads, rows);
  }
  /// The first tile of a list.
  [[nodiscard]] static HEADMIX_DEVICE int begin(attention_extents const& x, Index list, int rows) {
    return x.chosen.offsets[list] / rows + static_cast<int>(list);
  }
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE tile_visible_range visible_range(Device& device, int tile) const {
    words<4> const w = device.load16(&data[tile].visible_range);
    return __builtin_bit_cast(tile_visible_range, w);
  }
};
/// Computes the tiles, one warp per tile, and their heads if score maps read them.
template <AttentionMask Mask, class Map, int rows>
struct attention_compute_tiles {
  static constexpr int threads = 128, warps = threads / 32;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  attention_extents x;
  divisor per_token;
  listed_tiles tiles;

  [[nodiscard]] Index blocks() const { return blocks_for(listed_tiles::count(x, rows), warps); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const t = device.block() * warps + device.warp();
    if (t >= tile_bound(x.queries.rows * x.rows_per_token, x.queries.count * x.heads, rows)) return;
    Int const* const begins = x.chosen.offsets;
    Index const list =
        segment_of_tile(device, t, x.queries.count * x.heads, rows, [=](Index of) { return Index{begins[of]}; });
    Index const b = list / x.heads, length = begins[list + 1] - begins[list];
    Index const later = blocks_for(length, rows) - 1 - first_row_of_tile(t, list, begins[list], rows) / rows;
    list_part const part = part_before(length, rows, later);
    Index const first = begins[list] + part.first, end = begins[list] + part.end;
    int const keys = static_cast<int>(x.keys.length(b));
    int const position = static_cast<int>(x.first_position(b) - x.queries.begin(b));
    tile_visible_range all = empty_visible_range<Mask>();
    for (Index i = first + device.lane(); i < end; i += 32) {
      key_range const range = clamped_visible_keys<Mask>(position + x.chosen.slots[i] / per_token, keys);
      extend_visible_range(all, static_cast<int>(range.begin), static_cast<int>(range.end));
    }
    all = warp_reduce_visible_range(device, all);
    if (device.lane() != 0) return;
    int const head = Map::identity ? 0 : static_cast<int>(list - b * x.heads);
    listed_tile const result{all, static_cast<int>(first), first < end ? static_cast<int>(end - first) : 0, head, 0};
    words<8> const result_words = __builtin_bit_cast(words<8>, result);
    HEADMIX_UNROLL
    for (int i = 0; i < 2; ++i) {
      words<4> half;
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) half.word[w] = result_words.word[4 * i + w];
      device.store16(reinterpret_cast<std::uint32_t*>(tiles.data + t) + 4 * i, half);
    }
  }
};

}  // namespace headmix::cuda_kernels
