#pragma once
// SPDX-License-Identifier: MIT
// Rows of a tile of scores: mask, bias and score map.

#include <algorithm>
#include <limits>

#include "headmix/backend/cpu/attention/rows.hpp"
#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/simd/simd.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Row length of a tile of scores: whole cache lines, so that loops over a row have no remainder.
template <class T>
constexpr Index padded(Index keys) {
  constexpr Index line = scratch_alignment / static_cast<Index>(sizeof(T));
  return (keys + line - 1) / line * line;
}

/// The part of a row of a tile with keys that the row may see, [begin, end) from the tile's first key, and the whole
/// cache lines [first, last) around it.
struct tile_part {
  Index begin, end, first, last;
};
template <class T>
tile_part part_of_tile(key_range keys, Index tile_begin, Index tile_end) {
  Index const begin = (std::max)(keys.begin, tile_begin) - tile_begin,
              end = (std::min)(keys.end, tile_end) - tile_begin;
  if (begin >= end) return {0, 0, 0, 0};
  constexpr Index line = scratch_alignment / static_cast<Index>(sizeof(T));
  return {begin, end, begin / line * line, padded<T>(end)};
}

/// Sets the scores of [first, last) that the row does not see to `masked`.
template <AttentionMask M, class T>
void mask_scores(T* scores, tile_part const& part, Index position, Index tile_begin,
                 T masked = -std::numeric_limits<T>::infinity()) {
  std::fill(scores + part.first, scores + part.begin, masked);
  std::fill(scores + part.end, scores + part.last, masked);
  if constexpr (!dense_mask<M>) {
    for (Index s = part.begin; s < part.end; ++s) scores[s] = M::sees(position, tile_begin + s) ? scores[s] : masked;
  }
}

/// Adds the bias to the scores that the row may see.
template <class T, class S, class Map>
void add_bias(T* scores, attention_scores<S, Map> const& s, tile_part const& part, query_row const& at,
              Index tile_begin) {
  if (!s.bias.data || part.begin >= part.end) return;
  S const* const bias = &s.bias(at.position * s.bias_keys + tile_begin, at.head);
  for (Index j = part.begin; j < part.end; ++j) scores[j] += static_cast<T>(bias[j * s.bias.row_stride]);
}

/// False where the score map's slope, its derivative by the score, is 1 everywhere.
template <class Map>
inline constexpr bool has_slope = true;
template <>
inline constexpr bool has_slope<no_score_map> = false;
template <class Map>
requires(!Map::identity && Map::shifts) inline constexpr bool has_slope<Map> = false;

/// f(j, key positions) for the scores of the part: one by one, or by vectors for a vectorizable map, then for whole
/// cache lines.
template <class Map, class T, class F>
void each_key_position(tile_part const& part, Index tile_begin, F f) {
  if constexpr (Map::vectorizable) {
    using P = simd<T>;
    T numbers[P::width];
    for (Index i = 0; i < P::width; ++i) numbers[i] = static_cast<T>(i);
    P const from_0 = P::load(numbers);
    for (Index j = part.first; j < part.last; j += P::width) f(j, P(static_cast<double>(tile_begin + j)) + from_0);
  } else {
    for (Index j = part.begin; j < part.end; ++j) f(j, static_cast<T>(tile_begin + j));
  }
}
/// Reads a score, or a vector of scores.
template <class P, class T>
P get_scores(T const* from) {
  if constexpr (std::is_same_v<P, T>) {
    return *from;
  } else {
    return P::load(from);
  }
}
template <class P, class T>
void put_scores(T* to, P const& scores) {
  if constexpr (std::is_same_v<P, T>) {
    *to = scores;
  } else {
    scores.store(to);
  }
}

/// Maps the scores of the part. Scores that the row does not see become anything.
template <class T, class S, class Map>
void map_scores(T* scores, attention_scores<S, Map> const& s, tile_part const& part, query_row const& at,
                Index tile_begin) {
  if constexpr (!Map::identity) {
    auto const row = s.row(at.position, at.head);
    each_key_position<Map, T>(part, tile_begin, [&]<class P>(Index j, P const& key_position) {
      put_scores(scores + j, Map::template value<P>(row, get_scores<P>(scores + j), key_position));
    });
  }
}
/// Maps the scores of the part; slopes = the derivatives of the mapped scores by the scores.
template <class T, class S, class Map>
void map_scores_with_slopes(T* scores, T* slopes, attention_scores<S, Map> const& s, tile_part const& part,
                            query_row const& at, Index tile_begin) {
  auto const row = s.row(at.position, at.head);
  each_key_position<Map, T>(part, tile_begin, [&]<class P>(Index j, P const& key_position) {
    auto const mapped = Map::template with_slope<P>(row, get_scores<P>(scores + j), key_position);
    put_scores(scores + j, mapped.value);
    put_scores(slopes + j, mapped.by_score);
  });
}

/// slopes *= p in the part, and exactly 0 where p is 0: there, slopes may be anything.
template <class T>
HEADMIX_WHOLE_VECTORS void multiply_slopes(T* slopes, T const* p, tile_part const& part) {
  for (Index j = part.first; j < part.last; j += lanes<T>) {
    vector<T> const probability = load(p + j), product = probability * load(slopes + j);
    store(slopes + j, vector<T>(probability == vector<T>{} ? vector<T>{} : product));
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
