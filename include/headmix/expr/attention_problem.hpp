#pragma once
// SPDX-License-Identifier: MIT
// What an attention kernel is given. Multi-head, grouped-query and multi-query attention, MoA (several rows of one
// token on one key/value head) and ragged batches are all the same problem with another list of query rows.

#include "headmix/core/random.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// One query row of the list of a (sequence, key/value head): where it lies and how much it may see.
struct query_row {
  Index row;       ///< row of q and o
  Index col;       ///< first column of the head in q and o; head = col / head_dim is its column in the log-sum-exp
  Index position;  ///< of its token among the keys of the sequence, for the mask
};

/// Extents of an attention.
/// q and o are [rows_per_token * tokens, heads * head_dim], k and v are [key tokens, kv_heads * head_dim], the
/// log-sum-exp is [rows_per_token * tokens, heads]. Head i of a row reads key/value head i * kv_heads / heads.
struct attention_extents {
  segments queries;          ///< of the query tokens (not rows)
  segments keys;             ///< of the key tokens; as many sequences as `queries`
  Index rows_per_token = 1;  ///< MoA: the k chosen experts of a token
  Index heads = 1;           ///< heads side by side in a row of q
  Index kv_heads = 1;        ///< divides `heads`
  Index head_dim = 0;

  /// Query heads that share a key/value head.
  [[nodiscard]] HEADMIX_HD constexpr Index group() const { return heads / kv_heads; }
  /// Length of the row list of sequence b and any key/value head: token-major, then slot, then head.
  [[nodiscard]] HEADMIX_HD constexpr Index list_length(Index b) const {
    return queries.length(b) * rows_per_token * group();
  }
  /// Element i of the row list of sequence b and key/value head p. Positions never fall as i grows.
  [[nodiscard]] HEADMIX_HD constexpr query_row row(Index b, Index p, Index i) const {
    Index const g = group(), per_token = rows_per_token * g;
    Index const t = i / per_token, slot = i / g % rows_per_token, head = p * g + i % g;
    return {(queries.begin(b) + t) * rows_per_token + slot, head * head_dim, t + keys.length(b) - queries.length(b)};
  }
};

/// Dropout of the probabilities: that of key s for a query's head is multiplied by 0 with probability `rate`, else by
/// 1 / (1 - rate). Which one is a function of the key, of the row in the whole batch, and of the position s.
struct attention_dropout {
  Int const* key = nullptr;  ///< the words of a `randomness`; null without dropout
  std::uint32_t stream = 0;
  double rate = 0;

  [[nodiscard]] HEADMIX_HD bool on() const { return key != nullptr && randomness_is_on(key); }
  /// Calls f(s, factor) for the keys [begin, end) of a sequence, as the query row sees them.
  HEADMIX_CALLS_GIVEN
  template <class F>
  HEADMIX_HD void each_factor(attention_extents const& x, query_row at, Index begin, Index end, F f) const {
    Random const random = random_stream_of(key, stream);
    auto const row = row_in_batch(key, at.row, x.rows_per_token) * static_cast<std::uint64_t>(x.heads) +
                     static_cast<std::uint64_t>(at.col / x.head_dim);
    double const kept = 1 / (1 - rate);
    for (Index s = begin; s < end;) {
      auto const four = random.block(row << 30 | static_cast<std::uint64_t>(s) / 4);
      for (Index i = s % 4; i < 4 && s < end; ++i, ++s) f(s, four.word[i] * 0x1p-32 < rate ? 0 : kept);
    }
  }
};

/// Operands of the forward pass: o = softmax(q k^T / sqrt(head_dim) where the mask allows) v, and the row log-sum-exp.
/// A query that sees no key gets o = 0 and a log-sum-exp of minus infinity. The log-sum-exp is not wanted when its data
/// is null.
template <class T>
struct attention_forward {
  attention_extents extents;
  view<T const> q, k, v;
  view<T> o;
  view<wide_t<T>> lse;
  attention_dropout dropout = {};
};

/// Operands of the backward pass. A gradient whose data is null is not wanted; the others are overwritten.
template <class T>
struct attention_backward {
  attention_extents extents;
  view<T const> q, k, v, o, d_o;
  view<wide_t<T> const> lse;
  view<T> d_q, d_k, d_v;
  attention_dropout dropout = {};
};

}  // namespace headmix
