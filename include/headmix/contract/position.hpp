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

/// Rotary embedding of a head of d columns: the columns that turn, and by how much. Pair c of `dims` columns turns by
/// position * f, f = theta^(-2 c / dims); the other columns stay.
struct rotation {
  bool inverse = false;
  bool interleaved = false;  ///< pair c is the columns (2 c, 2 c + 1); otherwise (c, c + dims / 2)
  Index dims = 0;            ///< the first columns of a head turn; 0: all of them
  /// Llama 3.1: a frequency is divided by `factor` where it turns fewer than `low` times in `trained` positions, kept
  /// where it turns more than `high` times, and in between linear in the number of turns. 0: frequencies stay.
  Index trained = 0;
  double factor = 1, low = 1, high = 4;

  /// The number of columns that turn.
  [[nodiscard]] HEADMIX_HD constexpr Index turned(Index head_dim) const { return dims == 0 ? head_dim : dims; }
  /// The first column of pair c of a head.
  [[nodiscard]] HEADMIX_HD constexpr Index first(Index c) const { return interleaved ? 2 * c : c; }
  /// The second column of pair c of a head.
  [[nodiscard]] HEADMIX_HD constexpr Index second(Index c, Index head_dim) const {
    return interleaved ? 2 * c + 1 : c + turned(head_dim) / 2;
  }
  /// The frequency that pairs of frequency f turn with.
  [[nodiscard]] HEADMIX_HD constexpr double frequency(double f) const {
    if (trained == 0) return f;
    constexpr double turn = 6.283185307179586476925286766559;
    double const turns = static_cast<double>(trained) * f / turn;
    if (turns < low) return f / factor;
    if (turns > high) return f;
    double const share = (turns - low) / (high - low);
    return (1 - share) * f / factor + share * f;
  }
};

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
