#pragma once
// SPDX-License-Identifier: MIT
// Which keys a query may see: a policy of the attention. What its positions are: contract/position.hpp.

#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// Keys [begin, end) of a sequence.
struct key_range {
  /// From begin to one before end.
  Index begin = 0, end = 0;
};

/// A mask says whether the query at position t sees the key at position s.
/// It may also bound the keys by a range, `Mask::range(t, keys)`, outside of which nothing is computed: without one,
/// Cpu looks for the first and the last key that a query sees, and a decoder and a GPU compute with all keys;
/// and say by `Mask::dense = true` that a query sees every key of its range, so that no key is tested;
/// and by `Mask::separate_positions = true` that queries and keys of two sequences are counted each by itself.
template <class M>
concept AttentionMask = requires(Index t, Index s) {
  { M::sees(t, s) } -> std::convertible_to<bool>;
};

/// Every query sees every key. Queries and keys of two sequences are counted each by itself.
struct full {
  static constexpr bool dense = true, separate_positions = true;
  HEADMIX_HD static constexpr bool sees(Index, Index) { return true; }
  HEADMIX_HD static constexpr key_range range(Index, Index keys) { return {0, keys}; }
};

/// Position t sees the keys 0 .. t.
struct causal {
  static constexpr bool dense = true;
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t; }
  HEADMIX_HD static constexpr key_range range(Index t, Index keys) { return {0, t + 1 < keys ? t + 1 : keys}; }
};

/// Position t sees the keys t - Window + 1 .. t.
template <Index Window>
struct sliding_window {
  static_assert(Window >= 1, "headmix: a sliding window holds at least the query's own position");
  static constexpr bool dense = true;
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t && t - s < Window; }
  HEADMIX_HD static constexpr key_range range(Index t, Index keys) {
    return {t < Window ? 0 : t - Window + 1, t + 1 < keys ? t + 1 : keys};
  }
};

/// True when a mask bounds the keys that a query may see.
template <AttentionMask M>
inline constexpr bool bounded_mask = requires(Index t, Index keys) {
  M::range(t, keys);
};

/// The keys that position t may see, as a range; all of them for a mask that does not say.
template <AttentionMask M>
HEADMIX_HD constexpr key_range visible_keys(Index t, Index keys) {
  if constexpr (bounded_mask<M>) {
    return M::range(t, keys);
  } else {
    return {0, keys};
  }
}

/// True when a query sees every key of its range.
template <AttentionMask M>
inline constexpr bool dense_mask = requires {
  requires M::dense;
};

namespace archetype {
/// The least that a mask is.
struct mask {
  static bool sees(Index t, Index s) { return t != s; }
};
}  // namespace archetype
static_assert(AttentionMask<archetype::mask>, "headmix: archetype::mask is no AttentionMask");
static_assert(AttentionMask<full> && AttentionMask<causal> && AttentionMask<sliding_window<4>>,
              "headmix: a ready-made mask is no AttentionMask");

}  // namespace headmix
