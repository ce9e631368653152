#pragma once
// SPDX-License-Identifier: MIT
// Blocks of query rows: row lists, and the keys that the rows of a block see.

#include <algorithm>
#include <cstdint>

#include "headmix/backend/cpu/products/gemm.hpp"
#include "headmix/contract/attention_problem.hpp"
#include "headmix/contract/mask.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Query rows of a block, a multiple of mr, and keys of a tile.
struct attention_tile {
  static constexpr Index rows = tuning::attention_rows, keys = tuning::attention_keys;
};
/// Query rows and keys of a tile of the backward pass.
struct gradient_tile {
  static constexpr Index rows = tuning::gradient_rows, keys = tuning::gradient_keys;
};

namespace detail {

/// A row of a block: its position in memory and sequence, and the range of keys that it may see.
struct block_row {
  query_row at;
  key_range keys;
};

/// `rows` rows of a row list, from `first` on.
struct row_block {
  Index sequence, list, first, rows;
};

/// Blocks of a row list: their number, and the rows of each but the last. All have about equal rows, at most
/// Tile::rows.
template <class Tile>
struct list_blocks {
  Index length, count, rows;

  explicit list_blocks(Index list_length)
      : length(list_length), count((length + Tile::rows - 1) / Tile::rows), rows(0) {
    constexpr Index group = register_block<float>::mr;
    if (count > 0) rows = ((length + count - 1) / count + group - 1) / group * group;
  }
  [[nodiscard]] row_block block(Index sequence, Index list, Index i) const {
    return {sequence, list, i * rows, (std::min)(rows, length - i * rows)};
  }
};

/// The blocks of all row lists: the sequences in order, in each the lists, in each the blocks.
class block_table {
 public:
  /// Elements of `memory`, for chosen heads and for all.
  [[nodiscard]] static constexpr Index size(attention_extents const& x) {
    return (checked(x.queries.count) * x.heads + 1).value;
  }

  block_table(attention_extents const& x, Index* memory) : x_(x), begins_(memory) {
    Index n = 0;
    *memory++ = 0;
    for (Index b = 0; b < x.queries.count; ++b)
      for (Index list = 0; list < x.lists(); ++list)
        *memory++ = n += list_blocks<attention_tile>(x.list_length(b, list)).count;
  }
  [[nodiscard]] Index blocks() const { return begins_[x_.queries.count * x_.lists()]; }
  [[nodiscard]] row_block operator[](Index i) const {
    Index const n = std::upper_bound(begins_, begins_ + x_.queries.count * x_.lists() + 1, i) - begins_ - 1;
    Index const b = n / x_.lists(), list = n % x_.lists();
    return list_blocks<attention_tile>(x_.list_length(b, list)).block(b, list, i - begins_[n]);
  }

 private:
  attention_extents x_;
  Index const* begins_;
};

/// The rows of a sequence and head of `v`, which is k, v or a gradient.
template <class T>
view<T> keys_of(attention_extents const& x, view<T> v, Index sequence, Index kv_head) {
  return v.middle_rows(x.keys.begin(sequence), x.keys.length(sequence)).middle_cols(kv_head * x.head_dim, x.head_dim);
}

/// The range of keys that a query at the position may see: the mask's range within [0, keys), {0, 0} if empty.
template <AttentionMask M>
key_range visible_range(Index position, Index keys) {
  key_range range = visible_keys<M>(position, keys);
  range = {(std::max)(range.begin, Index{0}), (std::min)(range.end, keys)};
  return range.begin >= range.end ? key_range{0, 0} : range;
}

/// visible_range; for a mask without a range, the smallest range with all keys that the query sees, found by tests.
template <AttentionMask M>
key_range searched_visible_range(Index position, Index n) {
  key_range keys = visible_range<M>(position, n);
  if constexpr (bounded_mask<M>) return keys;
  constexpr Index several = 64;  // keys without a branch: tested in vectors
  auto const sees_none = [position](Index first) {
    Index seen = 0;
    for (Index k = 0; k < several; ++k) seen |= static_cast<Index>(static_cast<bool>(M::sees(position, first + k)));
    return seen == 0;
  };
  auto& [begin, end] = keys;
  while (end - begin >= several && sees_none(begin)) begin += several;
  while (begin < end && !M::sees(position, begin)) ++begin;
  while (end - begin >= several && sees_none(end - several)) end -= several;
  while (begin < end && !M::sees(position, end - 1)) --end;
  return begin < end ? keys : key_range{0, 0};
}

/// f(i, row) for the rows of a block, by counters or 32-bit divisions: 64-bit divisions would show in short sequences.
template <class F>
void each_row(attention_extents const& x, row_block const& block, F f) {
  if (block.rows == 0) return;
  query_row at = x.row(block.sequence, block.list, block.first);
  if (x.heads_are_chosen()) {
    Int const* const slots = x.chosen.slots + x.chosen.offsets[block.sequence * x.heads + block.list] + block.first;
    auto const per_token = static_cast<std::uint32_t>(x.rows_per_token);
    Index const shift = at.position - at.row / x.rows_per_token;
    for (Index i = 0; i < block.rows; ++i) {
      at.row = slots[i];
      at.position = static_cast<Index>(static_cast<std::uint32_t>(slots[i]) / per_token) + shift;
      f(i, at);
    }
    return;
  }
  Index const group = x.group();
  Index head = block.first % group, slot = block.first / group % x.rows_per_token;
  for (Index i = 0; i < block.rows; ++i) {
    f(i, at);
    ++at.head;
    at.col += x.head_dim;
    if (++head < group) continue;
    head = 0;
    at.head -= group;
    at.col -= group * x.head_dim;
    ++at.row;
    if (++slot < x.rows_per_token) continue;
    slot = 0;
    ++at.position;
  }
}

/// Describes the rows of a block; returns the range of keys that some row sees.
template <AttentionMask M, key_range (*Visible)(Index, Index) = searched_visible_range<M>>
key_range describe_rows(attention_extents const& x, row_block const& block, block_row* rows) {
  Index const keys = x.key_length(block.sequence);
  key_range all{keys, 0};
  each_row(x, block, [&](Index i, query_row const& at) {
    bool const again = i > 0 && rows[i - 1].at.position == at.position;
    rows[i] = {at, again ? rows[i - 1].keys : Visible(at.position, keys)};
    if (rows[i].keys.end > 0) {
      all = {(std::min)(all.begin, rows[i].keys.begin), (std::max)(all.end, rows[i].keys.end)};
    }
  });
  return all;
}

/// The rows of a block, for the products of a tile.
struct tile_rows {
  block_row const* rows;
  Index count;

  /// From the first to the last row that sees some of the keys [begin, end).
  struct span {
    Index first, last;
    friend bool operator==(span const&, span const&) = default;
  };
  [[nodiscard]] span that_see(Index begin, Index end) const {
    auto const sees = [&](Index i) { return end > rows[i].keys.begin && begin < rows[i].keys.end; };
    span s{0, count};
    while (s.first < s.last && !sees(s.first)) ++s.first;
    while (s.first < s.last && !sees(s.last - 1)) --s.last;
    return s;
  }
  /// f(s) for the keys of [begin, end) that row i sees.
  template <AttentionMask M, class F>
  void each_key(Index i, Index begin, Index end, F f) const {
    key_range const range{(std::max)(rows[i].keys.begin, begin), (std::min)(rows[i].keys.end, end)};
    for (Index s = range.begin; s < range.end; ++s) {
      if constexpr (!dense_mask<M>) {
        if (!M::sees(rows[i].at.position, s)) continue;
      }
      f(s);
    }
  }
  /// f(rows, begin, end) for stretches of rows and the keys of [begin, end) that some of them sees, perhaps none;
  /// stretches are multiples of `step` rows.
  template <class F>
  void each_stretch(Index begin, Index end, Index step, F f) const {
    span stretch{0, 0};
    key_range keys{0, 0};
    for (Index i = 0; i < count; i += step) {
      Index const last = (std::min)(i + step, count);
      key_range seen{end, begin};
      for (Index r = i; r < last; ++r) {
        key_range const own{(std::max)(rows[r].keys.begin, begin), (std::min)(rows[r].keys.end, end)};
        if (own.begin < own.end) seen = {(std::min)(seen.begin, own.begin), (std::max)(seen.end, own.end)};
      }
      if (i > 0 && (seen.begin != keys.begin || seen.end != keys.end)) {
        f(stretch, keys.begin, keys.end);
        stretch.first = i;
      }
      keys = seen;
      stretch.last = last;
    }
    f(stretch, keys.begin, keys.end);
  }
  /// f(rows, begin, end) for stretches of the keys [begin, end) and the rows that see some of them, perhaps none;
  /// stretches are multiples of `step` keys.
  template <class F>
  void each_key_stretch(Index begin, Index end, Index step, F f) const {
    span seen{0, 0};
    Index first = begin;
    for (Index s = begin; s < end; s += step) {
      span const own = that_see(s, (std::min)(s + step, end));
      if (s > begin && own != seen) {
        f(seen, first, s);
        first = s;
      }
      seen = own;
    }
    f(seen, first, end);
  }
};

}  // namespace detail

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
