#pragma once
// SPDX-License-Identifier: MIT
// The position of a row in its sequence: one definition, for masks and windows, score maps, biases of scores and rotary
// embedding, in all kernels and in decoders.
//
// Rows of a sequence have the positions p, p + 1, ... Padding has none: only valid rows count (a pool::window of Mae's
// gate alone counts rows of padding). p is
// - if the sequence has a number of earlier positions (segments::past), as in a decoder: this number;
// - for keys, for queries that are the same rows, and for queries under a mask with separate_positions: 0;
// - for other queries: the number of keys minus that of queries, so that the last query is at the position of the last
// key.
//   With more queries than keys the first positions are negative.

#include "headmix/contract/mask.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// True if queries and keys of two sequences are each numbered from 0, as in an encoder-decoder: for `full`, and for a
/// mask with `separate_positions = true`.
template <AttentionMask M>
inline constexpr bool separate_positions = requires {
  requires M::separate_positions;
};

/// The position of the first of the `length` queries of sequence b, which has `keys` keys including those of earlier
/// passes.
[[nodiscard]] HEADMIX_HD constexpr Index first_query_position(segments const& queries, Index b, Index length,
                                                              Index keys, bool separate) {
  if (queries.past != nullptr) return queries.past[b];
  return separate ? 0 : keys - length;
}

/// Rows of sequences and their positions: from 0, from segments::past, or aligned with the end of the keys.
struct row_positions : segments {
  segments keys = {};
  bool separate = true;  ///< positions do not depend on the keys

  row_positions() = default;
  /// Positions that do not depend on keys.
  HEADMIX_HD constexpr row_positions(segments const& s) : segments(s) {}
  /// Queries over the keys of `of`, with a mask without separate_positions.
  HEADMIX_HD constexpr row_positions(segments const& queries, segments const& of)
      : segments(queries), keys(of), separate(false) {}

  /// The position of the first row of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index first_position(Index b) const {
    if (separate) return segments::first_position(b);
    return first_query_position(*this, b, length(b), keys.first_position(b) + keys.length(b), false);
  }
};

}  // namespace headmix
