#pragma once
// SPDX-License-Identifier: MIT
// The operands of an attention kernel. Multi-head, grouped-query and multi-query attention, MoA (several rows of one
// token on one key/value head), MoH (each head, or key/value head, has the rows that chose it) and ragged batches are
// one problem with different lists of query rows.

#include "headmix/contract/position.hpp"
#include "headmix/contract/score_steps.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

/// One query row of a row list: its row and columns in q and o, its position and its head.
struct query_row {
  Index row;       ///< row of q and o
  Index col;       ///< first column of the head in q and o
  Index position;  ///< position of its token in the sequence (contract/position.hpp)
  Index head;      ///< in [0, heads)
};

/// The rows of each head, where every token chooses heads: element n of the list of sequence b and head h is slot
/// slots[offsets[b * heads + h] + n], slot = token * rows_per_token + choice, ascending.
struct chosen_rows {
  Int const* slots = nullptr;
  Int const* offsets = nullptr;  ///< sequences * heads + 1 numbers
  Index per_token = 1;           ///< slots of a token in a list, at most
  bool given = false;            ///< false: every head has every row

  constexpr chosen_rows() = default;
  /// Tokens choose heads. Both pointers are null while scratch bytes are computed, before the lists have memory.
  HEADMIX_HD constexpr chosen_rows(Int const* all_slots, Int const* begins, Index most_per_token = 1)
      : slots(all_slots), offsets(begins), per_token(most_per_token), given(true) {}
};

/// Extents of an attention problem: lists of query rows; a list has rows of one sequence, of heads with the same keys.
///
/// Every head has every row (`chosen` is not given): q and o are [rows_per_token * tokens, heads * head_dim], the
/// log-sum-exp is [rows_per_token * tokens, heads], and a list has the rows of all heads of a key/value head. Heads are
/// chosen: a row of q and o, [rows_per_token * tokens, head_dim], belongs to the head that its slot chose, the
/// log-sum-exp is [rows_per_token * tokens, 1], and a list has the rows of one head, which are the key/value heads
/// where a token chooses one several times. The rows of slots that chose nothing are in no list. k and v are [key
/// tokens, kv_heads * head_dim]. Head h reads key/value head h * kv_heads / heads.
struct attention_extents {
  segments queries;          ///< sequences of query tokens (not rows)
  segments keys;             ///< sequences of key tokens; as many as in `queries`
  Index rows_per_token = 1;  ///< k, the number of chosen experts or heads of a token
  Index heads = 1;
  Index kv_heads = 1;  ///< divides `heads`
  Index head_dim = 0;
  chosen_rows chosen = {};
  bool separate_positions = false;  ///< queries and keys are each numbered from 0

  /// Query heads that share a key/value head.
  [[nodiscard]] HEADMIX_HD constexpr Index group() const { return heads / kv_heads; }
  /// True where rows name their heads; defined before the lists have memory.
  [[nodiscard]] HEADMIX_HD constexpr bool heads_are_chosen() const {
#ifdef __CUDA_ARCH__
    return chosen.slots != nullptr;  // lists have memory in a kernel; nvcc 13.0 spills registers for `chosen.given`
#else
    return chosen.given;
#endif
  }
  /// Row lists of a sequence.
  [[nodiscard]] HEADMIX_HD constexpr Index lists() const { return heads_are_chosen() ? heads : kv_heads; }
  /// Row lists of a sequence that read the same key/value head p: [p * lists_per_kv_head(), ...).
  [[nodiscard]] HEADMIX_HD constexpr Index lists_per_kv_head() const { return heads_are_chosen() ? group() : 1; }
  /// The column of a query row in the log-sum-exp.
  [[nodiscard]] HEADMIX_HD constexpr Index lse_col(query_row const& at) const {
    return heads_are_chosen() ? 0 : at.head;
  }
  /// The key/value head that a list reads.
  [[nodiscard]] HEADMIX_HD constexpr Index kv_head_of(Index list) const { return list / lists_per_kv_head(); }
  /// The number of keys of sequence b, including those of earlier passes.
  [[nodiscard]] HEADMIX_HD constexpr Index key_length(Index b) const { return keys.first_position(b) + keys.length(b); }
  /// The position of the first query of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index first_position(Index b) const {
    return first_query_position(queries, b, queries.length(b), key_length(b), separate_positions);
  }
  /// Length of a list of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index list_length(Index b, Index list) const {
    if (!heads_are_chosen()) return queries.length(b) * rows_per_token * group();
    Int const* const begin = chosen.offsets + (b * heads + list);
    return begin[1] - begin[0];
  }
  /// The first element of a list of sequence b in the concatenation of all lists.
  [[nodiscard]] HEADMIX_HD constexpr Index list_begin(Index b, Index list) const {
    if (heads_are_chosen()) return chosen.offsets[b * heads + list];
    return queries.begin(b) * rows_per_token * heads + list * list_length(b, list);
  }
  /// Element i of a list of sequence b: token-major, then slot, then head. Positions do not decrease with i.
  [[nodiscard]] HEADMIX_HD constexpr query_row row(Index b, Index list, Index i) const {
    Index const first = first_position(b);
    if (heads_are_chosen()) {
      Index const slot = chosen.slots[chosen.offsets[b * heads + list] + i];
      return {slot, 0, slot / rows_per_token - queries.begin(b) + first, list};
    }
    Index const g = group(), per_token = rows_per_token * g;
    Index const t = i / per_token, slot = i / g % rows_per_token, head = list * g + i % g;
    return {(queries.begin(b) + t) * rows_per_token + slot, head * head_dim, t + first, head};
  }
};

/// The score of a query and a key: Map(scale q k + bias(position * bias_keys + s, head)), where position and s are the
/// positions of query and key in their sequence.
template <class T, class Map = no_score_map>
struct attention_scores {
  double scale = 1;
  view<T const> bias = {};  ///< [positions * bias_keys, heads]; null: none
  Index bias_keys = 0;
  /// The operands of the map, [1, heads] or [1, 1]. Not [[no_unique_address]]: nvcc 13.0 lays out a class with such a
  /// member differently on the device than on the host.
  typename Map::template operands_of<T> operands = {};

  /// The numbers that the map reads for a query row: position, head, operands.
  [[nodiscard]] HEADMIX_HD auto row(Index position, Index head) const {
    using W = accumulator_t<T>;
    score_row<W, Map::operands> r{static_cast<W>(position), static_cast<W>(head), {}};
    operands.read(r.operand, head);
    return r;
  }
};
/// The gradients of the operands of score maps, [1, 1] or [1, heads]; a gradient with null data is not computed.
template <class W, int Operands>
struct operand_gradients {
  view<W> by[Operands];
};

/// Dropout of probabilities: the probability of key s for a query and head is multiplied by 0 with probability `rate`,
/// otherwise by 1 / (1 - rate). The draw is a function of the key, the row in the whole batch, and the position s.
struct attention_dropout {
  Int const* key = nullptr;  ///< the words of a `randomness`; null without dropout
  random_stream stream = random_stream::attention_dropout;
  double rate = 0;

  /// The block of the stream for keys 4 b .. 4 b + 3 of a row: 2^34 rows of 2^26 keys have distinct blocks.
  [[nodiscard]] HEADMIX_HD static constexpr std::uint64_t block_of(std::uint64_t row, std::uint64_t b) {
    return row << 24 | b;
  }
  /// True where dropout is enabled.
  [[nodiscard]] HEADMIX_HD bool on() const { return key != nullptr && randomness_is_on(key); }
  /// Calls f(s, factor) for the keys s in [begin, end) of the query row's sequence.
  HEADMIX_CALLS_GIVEN
  template <class F>
  HEADMIX_HD void each_factor(attention_extents const& x, query_row at, Index begin, Index end, F f) const {
    Random const random = random_stream_of(key, stream);
    auto const row = row_in_batch(key, at.row, x.rows_per_token) * static_cast<std::uint64_t>(x.heads) +
                     static_cast<std::uint64_t>(x.lse_col(at));
    double const kept = 1 / (1 - rate);
    for (Index s = begin; s < end;) {
      auto const four = random.block(block_of(row, static_cast<std::uint64_t>(s) / 4));
      for (Index i = s % 4; i < 4 && s < end; ++i, ++s) f(s, four.word[i] * 0x1p-32 < rate ? 0 : kept);
    }
  }
};

/// Operands of the forward pass: o = softmax(scores where the mask allows) v, and the row log-sum-exp. A query that
/// sees no key, or only scores of minus infinity, gets o = 0 and a log-sum-exp of minus infinity, as does a row in no
/// list. A non-finite value reaches only rows that see it. A log-sum-exp with null data is not computed.
/// `probabilities` has a row for each element of the lists; its layout is private to the backend, and without columns
/// or data nothing is stored.
template <class T, class Map = no_score_map>
struct attention_forward {
  attention_extents extents;
  view<T const> q, k, v;
  view<T> o;
  view<accumulator_t<T>> lse;
  attention_dropout dropout = {};
  attention_scores<T, Map> scores = {};
  view<T> probabilities = {};
};

/// The pages of a decoder's cache. Position s of sequence b is row s % rows of page table[b * per_sequence + s / rows].
struct cache_pages {
  Int const* table = nullptr;  ///< [sequences * per_sequence]
  Index per_sequence = 1;
  Index rows = 0;  ///< rows per page, a multiple of the backend's `cache_rows`

  /// The page of position s of sequence b.
  [[nodiscard]] HEADMIX_HD constexpr Index page(Index b, Index s) const { return table[b * per_sequence + s / rows]; }
  /// The largest number of positions of a sequence.
  [[nodiscard]] HEADMIX_HD constexpr Index positions() const { return per_sequence * rows; }
};
/// Keys and values of all positions so far, [pages * rows, kv_heads * head_dim] numbers each, followed by `alignment`
/// readable bytes. The layout of a page is private to the backend, with two guarantees: a page has a part of rows *
/// head_dim numbers for each key/value head, and the first n positions, n a multiple of the backend's `cache_rows`, are
/// the first n * head_dim numbers of each part.
template <class T>
struct attention_cache {
  cache_pages pages;
  view<T> keys, values;
};

/// Operands of the backward pass. Gradients with null data are not computed; the others are overwritten (rows in no
/// list with zeros).
template <class T, class Map = no_score_map>
struct attention_backward {
  attention_extents extents;
  view<T const> q, k, v, o, d_o;
  view<accumulator_t<T> const> lse;
  view<T> d_q, d_k, d_v;
  attention_dropout dropout = {};
  attention_scores<T, Map> scores = {};
  view<T const> probabilities = {};  ///< as stored by the forward pass
};

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
