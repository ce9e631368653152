#pragma once
// SPDX-License-Identifier: MIT
// The position of a row in its sequence: one definition, for masks and windows, score maps, biases of scores and rotary
// embedding, in all kernels and in decoders.
//
// Rows of a sequence have the positions p, p + 1, ... Padding has none: only valid rows are rows here. p is
// - where the sequence says what came before its rows (segments::past), as those of a decoder do: that number;
// - of keys, of queries that are the same rows, and of queries where the mask is of separate_positions: 0;
// - of other queries: the number of keys less that of queries, so that the last query is at the position of the last key.
//   With more queries than keys the first positions are negative.

#include "headmix/contract/mask.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// True where queries and keys of two sequences are counted each by itself, as an encoder-decoder wants it: for `full`,
/// and for a mask that says `separate_positions = true`.
template <AttentionMask M>
inline constexpr bool separate_positions = requires {
  requires M::separate_positions;
};

/// The position of the first of the `length` queries of sequence b, which has `keys` keys with those of earlier passes.
[[nodiscard]] HEADMIX_HD constexpr Index first_query_position(segments const& queries, Index b, Index length,
                                                              Index keys, bool separate) {
  if (queries.past != nullptr) return queries.past[b];
  return separate ? 0 : keys - length;
}

/// Rows of sequences and their positions: counted from 0, or from what came before them; or as queries of other rows.
struct row_positions : segments {
  segments keys = {};
  bool separate = true;  ///< from the keys

  row_positions() = default;
  /// Counted by themselves.
  HEADMIX_HD constexpr row_positions(segments const& s) : segments(s) {}
  /// Queries of keys, with a mask that has no separate_positions.
  HEADMIX_HD constexpr row_positions(segments const& queries, segments const& of)
      : segments(queries), keys(of), separate(false) {}

  /// The position of the first row of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index first_position(Index b) const {
    if (separate) return segments::first_position(b);
    return first_query_position(*this, b, length(b), keys.first_position(b) + keys.length(b), false);
  }
};

}  // namespace headmix
