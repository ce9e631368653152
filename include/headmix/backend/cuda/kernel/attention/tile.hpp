#pragma once
// SPDX-License-Identifier: MIT
// Common parts of the attention kernels: the tile of a row list for each block, the row offsets of a list, and the
// visible keys of its rows.

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/mask.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

inline constexpr int largest_int = (std::numeric_limits<int>::max)();

/// Gated rows of o, in addition to o; null: not written.
template <class T>
struct attention_gated {
  view<accumulator_t<T> const> gate = {};
  view<T> o = {};
};

// ---- the tile of a block ----

/// A tile of a row list, or of the keys of a key/value head.
struct attention_tile {
  Index sequence;
  Index list;               ///< row list; for a tile of keys the key/value head
  Index kv_head;            ///< read by the list, or of the keys
  Index first;              ///< first row or key; beyond the last one: empty
  Index end = largest_int;  ///< after its last row, unless the list ends before

  /// The number of rows of the tile, in a list of `length` rows; at most 0 for an empty tile.
  [[nodiscard]] HEADMIX_HD Index rows_of(Index length) const { return (end < length ? end : length) - first; }
};

/// Rows first ... end - 1 of a list.
struct list_part {
  Index first, end;
};
/// The tile of a list that has `later` tiles of `rows` rows behind it; of no row if it has no such tile. Lists of
/// chosen heads are cut from their ends: under a causal mask the rest, fewer rows, then sees the fewest keys.
[[nodiscard]] HEADMIX_HD constexpr list_part part_before(Index length, Index rows, Index later) {
  Index const end = length - later * rows;
  if (later < 0 || end <= 0) return {largest_int, largest_int};
  return {end < rows ? 0 : end - rows, end};
}

/// The tiles of all sequences and their row lists or key/value heads, numbered in order of decreasing work: a causal
/// mask makes the last rows and the first keys the heaviest.
struct attention_tiles {
  segments tokens = {nullptr, 0, 0};
  Index per_token = 1;  ///< rows of the list, or 1; if heads are chosen, the rows of all lists
  Index most = 1;       ///< rows of a token in a list, at most
  Index heads = 0;      ///< lists, or key/value heads, of a sequence
  Index rows = 1;       ///< of a tile
  bool last_first = false;
  Int const* chosen = nullptr;  ///< offsets of the lists of chosen heads

  attention_tiles() = default;
  /// `interleaved`: pairs of sequence and head whose tiles are interleaved, as many as the cache holds.
  attention_tiles(segments of, Index rows_of_token, Index heads_of_sequence, Index rows_of_tile, Index interleaved,
                  bool last_comes_first, chosen_rows const& lists = {}, Index lists_per_kv_head = 1)
      : tokens(of),
        per_token(rows_of_token),
        most(lists.given && lists.per_token < rows_of_token ? lists.per_token : rows_of_token),
        heads(heads_of_sequence),
        rows(rows_of_tile),
        last_first(last_comes_first),
        chosen(lists.offsets) {
    if (tokens.count == 0 || heads == 0) return;
    by_heads_ = divisor(heads);
    by_lists_ = divisor(lists_per_kv_head);
    if (tokens.offsets) return;
    Index const pairs = tokens.count * heads;
    per_pair_ = blocks_for(tokens.rows / tokens.count * most, rows);
    if (per_pair_ == 0 || per_pair_ > largest_int / pairs) return;  // none, or too many to launch
    if (interleaved > pairs) interleaved = pairs;
    by_group_ = divisor(per_pair_ * interleaved);
    by_interleaved_ = divisor(interleaved);
    by_last_ = divisor(pairs % interleaved == 0 ? interleaved : pairs % interleaved);
    last_group_ = static_cast<Int>((pairs - 1) / interleaved);
  }

  [[nodiscard]] HEADMIX_HD Index count() const {
    if (tokens.count == 0) return 0;
    if (tokens.offsets == nullptr) return tokens.count * per_pair_ * heads;
    Index const n = tokens.rows * per_token;
    return chosen ? tile_bound(n, tokens.count * heads, rows) : tile_bound(n, tokens.count, rows) * heads;
  }
  /// To be called by all lanes of the warp.
  template <class Device>
  [[nodiscard]] HEADMIX_DEVICE attention_tile operator()(Device& device, Index i) const {
    if (chosen == nullptr) return (*this)(i);
    if (tokens.offsets) {
      Int const* const begins = chosen;
      Index const t = last_first ? count() - 1 - i : i;
      Index const pair =
          segment_of_tile(device, t, tokens.count * heads, rows, [=](Index list) { return Index{begins[list]}; });
      Index const length = chosen[pair + 1] - chosen[pair];
      Index const later = blocks_for(length, rows) - 1 - first_row_of_tile(t, pair, chosen[pair], rows) / rows;
      return of_list(static_cast<Int>(pair), length, later);
    }
    // For lists of any lengths the last tiles of all come first.
    auto const [pair, t] = interleaved_tile(i);
    Index const length = chosen[pair + 1] - chosen[pair];
    return of_list(pair, length, last_first ? Index{t} : blocks_for(length, rows) - 1 - t);
  }
  /// The tile of block i if no heads are chosen.
  [[nodiscard]] HEADMIX_DEVICE attention_tile operator()(Index i) const {
    if (tokens.offsets) {
      Index const head = i % heads, t = last_first ? (count() - 1 - i) / heads : i / heads;
      begin_of const begin{tokens, per_token};
      Index const sequence = segment_of_tile(t, tokens.count, rows, begin);
      return {sequence, head, head, first_row_of_tile(t, sequence, begin(sequence), rows)};
    }
    auto const [pair, t] = interleaved_tile(i);
    Int const sequence = pair / by_heads_, head = pair - sequence * by_heads_.n;
    return {sequence, head, head, (last_first ? per_pair_ - 1 - t : t) * rows};
  }

 private:
  // There are fewer than 2^31 blocks, and 64-bit divisions by run-time numbers take hundreds of clocks.
  Index per_pair_ = 0;  ///< tiles of a pair of sequence and head, if all sequences have equal length
  divisor by_heads_, by_lists_;
  divisor by_group_;                  ///< tiles of interleaved pairs
  divisor by_interleaved_, by_last_;  ///< number of such pairs, and of those in the last group
  Int last_group_ = 0;

  struct tile_of_pair {
    Int pair, t;
  };
  [[nodiscard]] HEADMIX_HD tile_of_pair interleaved_tile(Index block) const {
    Int const i = static_cast<Int>(block), group = i / by_group_, rest = i - group * by_group_.n;
    divisor const by = group == last_group_ ? by_last_ : by_interleaved_;
    Int const t = rest / by;
    return {group * by_interleaved_.n + (rest - t * by.n), t};
  }
  /// The tile of a list of chosen heads that has `later` tiles behind it.
  [[nodiscard]] HEADMIX_HD attention_tile of_list(Int pair, Index length, Index later) const {
    Int const sequence = pair / by_heads_, head = pair - sequence * by_heads_.n;
    list_part const part = part_before(length, rows, later);
    return {sequence, head, head / by_lists_, part.first, part.end};
  }
  struct begin_of {
    segments const& tokens;
    Index per_token;
    [[nodiscard]] HEADMIX_HD Index operator()(Index b) const { return tokens.begin(b) * per_token; }
  };
};

/// The number of pairs of sequence and head whose keys and values (or rows and gradients) fit in the L2 cache.
[[nodiscard]] inline Index interleaved_pairs(segments const& tokens, Index per_token, Index head_dim,
                                             std::size_t bytes) {
  if (tokens.count == 0) return 1;
  Index const each = 2 * (tokens.rows / tokens.count) * per_token * head_dim * static_cast<Index>(bytes);
  Index const n = tuning::interleaved_bytes / (each > 0 ? each : 1);
  return n > 1 ? n : 1;
}
/// Rows of a token that read a key/value head; the mean if heads are chosen.
[[nodiscard]] inline Index rows_per_kv_head(attention_extents const& x) {
  return x.heads_are_chosen() ? blocks_for(x.rows_per_token, x.kv_heads) : x.rows_per_token * x.group();
}
/// Tiles of query rows; each tile reads keys and values.
[[nodiscard]] inline attention_tiles query_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {x.queries,
          x.rows_per_token * (x.heads_are_chosen() ? 1 : x.group()),
          x.lists(),
          rows,
          interleaved_pairs(x.keys, 1, x.head_dim, bytes) * x.lists_per_kv_head(),
          true,
          x.chosen,
          x.lists_per_kv_head()};
}
/// Tiles of keys; each tile reads rows and their gradients.
[[nodiscard]] inline attention_tiles key_tiles(attention_extents const& x, Index rows, std::size_t bytes) {
  return {x.keys, 1, x.kv_heads, rows, interleaved_pairs(x.queries, rows_per_kv_head(x), x.head_dim, bytes), false};
}

// ---- visible keys ----

/// The visible keys of a position in a sequence; {0, 0} for none.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD constexpr key_range clamped_visible_keys(Index position, Index keys) {
  key_range range = visible_keys<Mask>(position, keys);
  if (range.begin < 0) range.begin = 0;
  if (range.end > keys) range.end = keys;
  return range.begin < range.end ? range : key_range{0, 0};
}

/// The visible keys of the rows of a tile.
struct tile_visible_range {
  int begin, end;                ///< outside of these, no row sees a key
  int common_begin, common_end;  ///< these are visible to every row
  [[nodiscard]] HEADMIX_HD bool overlaps(int first, int last) const { return first < end && begin < last; }
  [[nodiscard]] HEADMIX_HD bool covers(int first, int last) const {
    return common_begin <= first && last <= common_end;
  }
};
/// The visible keys of a tile without rows.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD tile_visible_range empty_visible_range() {
  return {largest_int, 0, 0, dense_mask<Mask> ? largest_int : 0};
}
/// Adds a row that sees the keys begin ... end - 1.
HEADMIX_HD inline void extend_visible_range(tile_visible_range& all, int begin, int end) {
  if (begin < end) {
    if (begin < all.begin) all.begin = begin;
    if (end > all.end) all.end = end;
  }
  if (begin > all.common_begin) all.common_begin = begin;
  if (end < all.common_end) all.common_end = end;
}
/// The visible keys of the rows at positions first ... last.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD tile_visible_range visible_range_of_positions(Index first, Index last, Index keys) {
  tile_visible_range all = empty_visible_range<Mask>();
  for (Index t = first; t <= last; ++t) {
    key_range const range = clamped_visible_keys<Mask>(t, keys);
    extend_visible_range(all, static_cast<int>(range.begin), static_cast<int>(range.end));
  }
  return all;
}
/// The visible keys of the rows of all 32 lanes of a warp.
template <class Device>
[[nodiscard]] HEADMIX_DEVICE tile_visible_range warp_reduce_visible_range(Device& device, tile_visible_range all) {
  HEADMIX_UNROLL
  for (int step = 16; step > 0; step /= 2) {
    int const begin = device.shuffle_xor(all.begin, step), end = device.shuffle_xor(all.end, step);
    int const common_begin = device.shuffle_xor(all.common_begin, step);
    int const common_end = device.shuffle_xor(all.common_end, step);
    if (begin < all.begin) all.begin = begin;
    if (end > all.end) all.end = end;
    if (common_begin > all.common_begin) all.common_begin = common_begin;
    if (common_end < all.common_end) all.common_end = common_end;
  }
  return all;
}

/// The mask's data of a row: the keys of its range, and its position.
struct row_visible_range {
  int begin, end, position;

  template <AttentionMask Mask>
  [[nodiscard]] HEADMIX_HD bool sees(int s) const {
    if (s < begin || s >= end) return false;
    if constexpr (dense_mask<Mask>) {
      return true;
    } else {
      return Mask::sees(position, s);
    }
  }
};
/// The mask's data of a row; empty if there is none.
template <AttentionMask Mask>
[[nodiscard]] HEADMIX_HD row_visible_range visible_range_of_row(bool valid, Index position, Index keys) {
  if (!valid) return {0, 0, 0};
  key_range const range = clamped_visible_keys<Mask>(position, keys);
  return {static_cast<int>(range.begin), static_cast<int>(range.end), static_cast<int>(position)};
}

/// The mask's data of rows in shared memory, three numbers each.
template <class Ranges>
HEADMIX_DEVICE void store_visible_range(Ranges row_ranges, int i, row_visible_range const& row) {
  row_ranges[3 * i] = row.begin;
  row_ranges[3 * i + 1] = row.end;
  row_ranges[3 * i + 2] = row.position;
}
template <class Ranges>
[[nodiscard]] HEADMIX_DEVICE row_visible_range load_visible_range(Ranges row_ranges, int i) {
  return {row_ranges[3 * i], row_ranges[3 * i + 1], row_ranges[3 * i + 2]};
}
/// A row with only scores of minus infinity sees nothing: its log-sum-exp is minus infinity too, so that its scores are
/// shifted by infinity.
template <class Ranges, class Wide>
HEADMIX_DEVICE void mask_row_without_scores(Ranges row_ranges, int i, Wide shift) {
  if (shift == -minus_infinity<Wide>) row_ranges[3 * i] = row_ranges[3 * i + 1] = 0;
}
/// The visible keys of the first `count` rows, by the 32 lanes of a warp.
template <AttentionMask Mask, class Device, class Ranges>
[[nodiscard]] HEADMIX_DEVICE tile_visible_range visible_range_of_rows(Device& device, Ranges row_ranges, int count) {
  tile_visible_range all = empty_visible_range<Mask>();
  for (int i = device.lane(); i < count; i += 32) extend_visible_range(all, row_ranges[3 * i], row_ranges[3 * i + 1]);
  return warp_reduce_visible_range(device, all);
}

// ---- exponentials ----

inline constexpr double log2_of_e = 1.4426950408889634074;

/// The exponential of a score in its unit: base 2 where the hardware has it, otherwise base e.
template <class Wide>
inline constexpr bool base_2 = !std::is_same_v<Wide, double>;
template <class Device, class Wide>
[[nodiscard]] HEADMIX_DEVICE Wide exponential(Device& device, Wide x) {
  if constexpr (base_2<Wide>) {
    return device.exp2(x);
  } else {
    return std::exp(x);
  }
}
/// The factor that converts a score to that unit.
template <class Wide>
inline constexpr double score_unit = base_2<Wide> ? log2_of_e : 1.0;
/// The factor that converts a product q k to a score in that unit; mapped scores are converted after the map.
template <class Wide, class T, class Map>
[[nodiscard]] Wide score_scale(attention_scores<T, Map> const& scores) {
  return static_cast<Wide>(scores.scale * (Map::identity ? score_unit<Wide> : 1.0));
}
/// The log-sum-exp (base e) of a row from its maximum in that unit and the sum of exponentials relative to it.
template <class Wide>
[[nodiscard]] HEADMIX_DEVICE Wide log_of_sum(Wide row_max, Wide row_sum) {
  if (row_sum == 0) return minus_infinity<Wide>;
  if constexpr (base_2<Wide>) {
    return static_cast<Wide>((row_max + std::log2(row_sum)) * static_cast<Wide>(1 / log2_of_e));
  } else {
    return row_max + std::log(row_sum);
  }
}

/// Multiplies the gradient by a mapped score by the map's slope. If the probability is 0, the slope is ignored.
template <class Map, class Wide>
[[nodiscard]] HEADMIX_DEVICE Wide through_map(Wide d, Wide probability, Wide slope) {
  if constexpr (Map::identity) {
    return d;
  } else {
    return probability == 0 ? Wide(0) : d * slope;
  }
}

/// Columns of the log-sum-exp: one if heads are chosen.
[[nodiscard]] HEADMIX_HD constexpr Index heads_of_row(attention_extents const& x) {
  return x.heads_are_chosen() ? 1 : x.heads;
}

}  // namespace headmix::cuda_kernels
