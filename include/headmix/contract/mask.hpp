#pragma once
// SPDX-License-Identifier: MIT
// Masks: the keys that a query sees, a policy of attention. Positions are defined in contract/position.hpp.

#include <concepts>

#include "headmix/core/config.hpp"

namespace headmix {

/// The keys [begin, end) of a sequence.
struct key_range {
  /// Half-open: begin .. end - 1.
  Index begin = 0, end = 0;
};

/// A mask decides whether the query at position t sees the key at position s: `Mask::sees(t, s)`. Optional members:
/// `Mask::range(t, keys)` bounds the visible keys, and nothing is computed outside of it; without a range, Cpu searches
/// for the first and the last visible key of a query, and a decoder and a GPU compute with all keys.
/// `Mask::dense = true` declares that a query sees every key of its range, so that no key is tested.
/// `Mask::separate_positions = true` numbers queries and keys of two sequences each from 0.
template <class M>
concept AttentionMask = requires(Index t, Index s) {
  { M::sees(t, s) } -> std::convertible_to<bool>;
};

/// Every query sees every key. Queries and keys of two sequences are each numbered from 0.
struct full {
  static constexpr bool dense = true, separate_positions = true;
  HEADMIX_HD static constexpr bool sees(Index, Index) { return true; }
  HEADMIX_HD static constexpr key_range range(Index, Index keys) { return {0, keys}; }
};

/// Causal: position t sees the keys 0 .. t.
struct causal {
  static constexpr bool dense = true;
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t; }
  HEADMIX_HD static constexpr key_range range(Index t, Index keys) { return {0, t + 1 < keys ? t + 1 : keys}; }
};

/// Sliding window: position t sees the keys t - Window + 1 .. t.
template <Index Window>
struct sliding_window {
  static_assert(Window >= 1, "headmix: a sliding window holds at least the query's own position");
  static constexpr bool dense = true;
  HEADMIX_HD static constexpr bool sees(Index t, Index s) { return s <= t && t - s < Window; }
  HEADMIX_HD static constexpr key_range range(Index t, Index keys) {
    return {t < Window ? 0 : t - Window + 1, t + 1 < keys ? t + 1 : keys};
  }
};

/// True if a mask has a range.
template <AttentionMask M>
inline constexpr bool bounded_mask = requires(Index t, Index keys) {
  M::range(t, keys);
};

/// The range of keys for position t; all keys for a mask without a range.
template <AttentionMask M>
HEADMIX_HD constexpr key_range visible_keys(Index t, Index keys) {
  if constexpr (bounded_mask<M>) {
    return M::range(t, keys);
  } else {
    return {0, keys};
  }
}

/// True if a query sees every key of its range.
template <AttentionMask M>
inline constexpr bool dense_mask = requires {
  requires M::dense;
};

namespace archetype {
/// The minimal mask.
struct mask {
  static bool sees(Index t, Index s) { return t != s; }
};
}  // namespace archetype
static_assert(AttentionMask<archetype::mask>, "headmix: archetype::mask is no AttentionMask");
static_assert(AttentionMask<full> && AttentionMask<causal> && AttentionMask<sliding_window<4>>,
              "headmix: a ready-made mask is no AttentionMask");

}  // namespace headmix
