#pragma once
// SPDX-License-Identifier: MIT
// What an attention kernel is given. Multi-head, grouped-query and multi-query attention, MoA (several rows of one
// token on one key/value head) and ragged batches are all the same problem with another list of query rows.

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

/// Operands of the forward pass: o = softmax(q k^T / sqrt(head_dim) where the mask allows) v, and the row log-sum-exp.
/// A query that sees no key gets o = 0 and a log-sum-exp of minus infinity. The log-sum-exp is not wanted when its data
/// is null.
template <class T>
struct attention_forward {
  attention_extents extents;
  view<T const> q, k, v;
  view<T> o;
  view<wide_t<T>> lse;
};

/// Operands of the backward pass. A gradient whose data is null is not wanted; the others are overwritten.
template <class T>
struct attention_backward {
  attention_extents extents;
  view<T const> q, k, v, o, d_o;
  view<wide_t<T> const> lse;
  view<T> d_q, d_k, d_v;
};

}  // namespace headmix
