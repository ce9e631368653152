#pragma once
// SPDX-License-Identifier: MIT
// Probabilities that the forward pass of attention stores for the gradient, which then has neither the products of
// queries and keys nor the exponentials: about a fifth less work, for memory of queries x keys.

#include <algorithm>

#include "headmix/backend/cpu/attention/rows.hpp"
#include "headmix/backend/cpu/parallel.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Row i is element i of all row lists, concatenated: e^(score - shift) for the keys of the sequence, tile by tile, and
/// behind them the shift of every tile, the running maximum of the scores up to this tile. Outside of the cache lines
/// of visible keys a row may hold anything.
template <class T>
class stored_probabilities {
 public:
  static constexpr Index tile = attention_tile::keys;

  /// Elements of a row: an odd number of cache lines, so that rows are spread over the cache sets.
  [[nodiscard]] static Index columns(attention_extents const& x) {
    Index const n = shifts_at(x) + (longest(x) + tile - 1) / tile;
    return (lines(n) | 1) * line;
  }

  /// @param rows  without columns or data, nothing is stored
  stored_probabilities(attention_extents const& x, view<T> rows) : rows_(rows), shifts_(shifts_at(x)) {}

  [[nodiscard]] bool on() const { return rows_.data != nullptr && rows_.cols > 0; }
  /// n rows from row i on and the keys [begin, end) of one tile.
  [[nodiscard]] view<T> part(Index i, Index n, Index begin, Index end) const {
    return rows_.middle_rows(i, n).middle_cols(begin, end - begin);
  }
  [[nodiscard]] T& shift(Index i, Index key) const { return rows_.row(i)[shifts_ + key / tile]; }

 private:
  static constexpr Index line = scratch_alignment / static_cast<Index>(sizeof(T));
  [[nodiscard]] static constexpr Index lines(Index n) { return (n + line - 1) / line; }
  [[nodiscard]] static Index longest(attention_extents const& x) {
    Index n = 0;
    for (Index b = 0; b < x.keys.count; ++b) n = (std::max)(n, x.keys.length(b));
    return n;
  }
  [[nodiscard]] static Index shifts_at(attention_extents const& x) { return lines(longest(x)) * line; }

  view<T> rows_;
  Index shifts_;
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
