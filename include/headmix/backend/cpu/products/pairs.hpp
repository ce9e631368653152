#pragma once
// SPDX-License-Identifier: MIT
// a and b of products of bfloat16s: pairs of numbers that are successive along the depth, as dot products and tiles
// read them. b is packed in pairs of rows; pairs of a are read in place. Floats are rounded as they are packed or
// copied, to one of their two terms.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "headmix/backend/cpu/products/packed_a.hpp"
#include "headmix/backend/cpu/products/tile_products.hpp"
#include "headmix/backend/cpu/simd/transpose.hpp"
#include "headmix/core/scalar.hpp"

#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
#include <immintrin.h>
#endif

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

/// Element 0 or 1 of a pair.
[[nodiscard]] inline float element_of(pair both, Index which) {
  std::uint32_t const word = which == 0 ? both << 16 : both & 0xFFFF0000u;
  float x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}
/// Rounds floats to bfloat16 and stores them. The instruction flushes subnormals, below 1.2e-38, to 0.
template <class To>
HEADMIX_WHOLE_VECTORS void store_rounded(To* to, vector<float> const& v) {
  static_assert(std::is_same_v<To, bfloat16>, "headmix: numbers are rounded to bfloat16 here");
#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
  __m256bh const halves = _mm512_cvtneps_pbh((__m512)v);
  std::memcpy(to, &halves, sizeof halves);
#else
  store_as<bfloat16, float>(to, v);
#endif
}

/// Floats rounded to bfloat16, in the low halves of words.
HEADMIX_WHOLE_VECTORS inline vector<pair> rounded_words(vector<float> const& v) {
  vector<std::uint16_t, vector_bytes / 2> halves;
  bfloat16 numbers[lanes<float>];
  store_rounded(numbers, v);
  std::memcpy(&halves, numbers, sizeof halves);
  return __builtin_convertvector(halves, vector<pair>);
}

/// The terms of a float: the nearest bfloat16, and the bfloat16 nearest to the rest.
enum class term { nearest, rest };

/// A term of floats, in the low halves of words.
template <term P>
HEADMIX_WHOLE_VECTORS vector<pair> words_of(vector<float> const& v) {
  vector<pair> const words = rounded_words(v);
  if constexpr (P == term::nearest) return words;
  vector<pair> const high = words << 16;
  vector<float> nearest;
  std::memcpy(&nearest, &high, sizeof nearest);
  return rounded_words(vector<float>(v - nearest));
}
/// A term of one number, in the low half of a word.
template <term P = term::nearest>
[[nodiscard]] inline pair word_of(bfloat16 x) {
  static_assert(P == term::nearest, "headmix: a bfloat16 has one term");
  return x.bits;
}
template <term P = term::nearest>
[[nodiscard]] inline pair word_of(float x) {
  return words_of<P>(vector<float>{} + x)[0];
}

/// Packs `depth` rows of `cols` elements, bfloat16s or floats, in pairs of rows, `width` pairs apart, with zeros behind
/// the last column and for the missing row of an odd depth. row(k) is where row k begins; its elements are `step`
/// apart.
template <term P = term::nearest, class Row>
HEADMIX_WHOLE_VECTORS void pack_pairs(pair* to, Index width, Index depth, Index cols, Index step, Row row) {
  using element = std::remove_cvref_t<decltype(*row(Index{0}))>;
  constexpr Index n = vector_bytes / static_cast<Index>(sizeof(element));  // elements in a register
  static constexpr element zeros[n] = {};
  for (Index k = 0; k < depth; k += 2, to += width) {
    element const *const a = row(k), *const b = k + 1 < depth ? row(k + 1) : nullptr;
    Index j = 0;
    if (step == 1) {
      for (; j + n <= cols; j += n) {
        if constexpr (std::is_same_v<element, float>) {
          store(to + j, vector<pair>(words_of<P>(load(a + j)) | words_of<P>(load(b ? b + j : zeros)) << 16));
        } else {
          using order = std::make_index_sequence<static_cast<std::size_t>(n)>;
          vector<std::uint16_t> low, high;
          std::memcpy(&low, a + j, sizeof low);
          std::memcpy(&high, b ? b + j : zeros, sizeof high);
          auto const first = interleave<0>(low, high, order{}), second = interleave<1>(low, high, order{});
          std::memcpy(to + j, &first, sizeof first);
          std::memcpy(to + j + n / 2, &second, sizeof second);
        }
      }
    }
    for (; j < cols; ++j) to[j] = word_of<P>(a[j * step]) | (b ? word_of<P>(b[j * step]) << 16 : 0);
    std::fill(to + j, to + width, pair{0});
  }
}
/// Packs a square of lanes<pair> x lanes<pair> pairs from column-major elements.
template <term P>
HEADMIX_WHOLE_VECTORS void pack_square(pair* to, Index width, bfloat16 const* from, Index col_stride) {
  transpose_square(to, width, reinterpret_cast<pair const*>(from), col_stride / 2);
}
template <term P>
HEADMIX_WHOLE_VECTORS void pack_square(pair* to, Index width, float const* from, Index col_stride) {
  constexpr Index n = lanes<float>;
  alignas(64) float rows[n * n];
  for (Index half = 0; half < 2; ++half) {
    transpose_square(rows, n, from + half * n, col_stride);
    for (Index k = 0; k < n; k += 2) {
      auto const row = [&](Index i) { return words_of<P>(load(rows + i * n)); };
      store(to + (half * n + k) / 2 * width, vector<pair>(row(k) | row(k + 1) << 16));
    }
  }
}
/// Packs a panel of b in pairs of rows.
template <term P = term::nearest, class S>
void pack_pairs(pair* to, Index width, view<S const> panel) {
  Index const depth = panel.rows, cols = panel.cols;
  bool const columns = panel.row_stride == 1 &&
                       (std::is_same_v<S, float> || (panel.col_stride % 2 == 0 &&
                                                     reinterpret_cast<std::uintptr_t>(panel.data) % sizeof(pair) == 0));
  if (!columns) return pack_pairs<P>(to, width, depth, cols, panel.col_stride, [&](Index k) { return &panel(k, 0); });
  // Column-major: squares are transposed.
  constexpr Index n = lanes<pair>;
  Index const squares = cols / n * n, deep = depth / 2 / n * n;
  for (Index j = 0; j < squares; j += n)
    for (Index k = 0; k < deep; k += n) pack_square<P>(to + k * width + j, width, &panel(2 * k, j), panel.col_stride);
  for (Index k = 0; k < (depth + 1) / 2; ++k, to += width) {
    for (Index j = k < deep ? squares : 0; j < cols; ++j)
      to[j] = word_of<P>(panel(2 * k, j)) | (2 * k + 1 < depth ? word_of<P>(panel(2 * k + 1, j)) << 16 : 0);
    std::fill(to + cols, to + width, pair{0});
  }
}

/// A micro-panel of a in pairs. Of an odd depth, the last pair has no second element in memory.
template <int R>
struct pair_micro_panel {
  std::byte const* row[R];  ///< where row r begins
  Index step;               ///< bytes from pair to pair
};
[[nodiscard]] inline pair first_element(std::byte const* p) {
  std::uint16_t low;
  std::memcpy(&low, p, sizeof low);
  return low;
}
[[nodiscard]] inline pair both_elements(std::byte const* p) {
  pair both;
  std::memcpy(&both, p, sizeof both);
  return both;
}

// Matrices a of bfloat16s: micro_panel<R>(i, n, k) as in packed_a.hpp, and tiles(i, n, k, depth, copy), which are n
// rows from row i on and `depth` elements from k on, in place or copied to memory for a copy; k is even.

/// Rows of successive bfloat16s, unpacked.
template <class Rows>
struct pairs_a {
  static constexpr bool in_place = std::is_same_v<Rows, strided_rows<bfloat16 const>>;  ///< for whole tiles
  Rows rows;
  template <int R>
  [[nodiscard]] pair_micro_panel<R> micro_panel(Index i, int n, Index k) const {
    pair_micro_panel<R> panel;
    for (int r = 0; r < R; ++r) panel.row[r] = reinterpret_cast<std::byte const*>(rows(i + (std::min)(r, n - 1)) + k);
    panel.step = sizeof(pair);
    return panel;
  }
  [[nodiscard]] tile_a tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    if constexpr (in_place) {
      if (n % tile_height == 0 && depth % tile_depth == 0) return {rows(i) + k, rows.stride};
    }
    Index const row = tile_padded(depth, tile_depth);
    for (Index r = 0; r < n; ++r)
      std::fill_n(std::copy_n(rows(i + r) + k, depth, copy + r * row), row - depth, bfloat16{});
    std::fill(copy + n * row, copy + tile_padded(n, tile_height) * row, bfloat16{});
    return {copy, row};
  }
};
/// Rows padded with zeros to whole tiles, which are read in place.
struct tiled_a : pairs_a<strided_rows<bfloat16 const>> {
  [[nodiscard]] tile_a tiles(Index i, Index, Index k, Index, bfloat16*) const { return {rows(i) + k, rows.stride}; }
};
/// a packed by pack_pairs() from its columns: rows of pairs of two successive columns, `width` pairs apart.
struct packed_pairs_a {
  static constexpr bool in_place = false;
  pair const* data;
  Index width;
  template <int R>
  [[nodiscard]] pair_micro_panel<R> micro_panel(Index i, int n, Index k) const {
    pair_micro_panel<R> panel;
    for (int r = 0; r < R; ++r)
      panel.row[r] = reinterpret_cast<std::byte const*>(data + k / 2 * width + i + (std::min)(r, n - 1));
    panel.step = width * static_cast<Index>(sizeof(pair));
    return panel;
  }
  [[nodiscard]] tile_a tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    Index const row = tile_padded(depth, tile_depth), pairs = (depth + 1) / 2;
    std::fill_n(copy, tile_padded(n, tile_height) * row, bfloat16{});
    view<pair const> from(data + k / 2 * width + i, pairs, n);
    from.row_stride = width;
    transpose<pair>(reinterpret_cast<pair*>(copy), row / 2, from);
    return {copy, row};
  }
};

/// Rows of floats, rounded to a term as they are copied.
template <class Rows, term P>
struct rounded_a {
  Rows rows;
  /// n rows from row i on, copied to whole tiles: see pairs_a.
  [[nodiscard]] tile_a tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    Index const row = tile_padded(depth, tile_depth);
    for (Index r = 0; r < n; ++r) {
      float const* const from = rows(i + r) + k;
      bfloat16* const to = copy + r * row;
      Index j = 0;
      for (; j + lanes<float> <= depth; j += lanes<float>) {
        auto const halves =
            __builtin_convertvector(words_of<P>(load(from + j)), vector<std::uint16_t, vector_bytes / 2>);
        std::memcpy(to + j, &halves, sizeof halves);
      }
      for (; j < depth; ++j) to[j].bits = static_cast<std::uint16_t>(word_of<P>(from[j]));
      std::fill(to + depth, to + row, bfloat16{});
    }
    std::fill(copy + n * row, copy + tile_padded(n, tile_height) * row, bfloat16{});
    return {copy, row};
  }
};

/// The rows of a from `first` on.
template <class A>
struct a_below {
  static constexpr bool in_place = A::in_place;
  A const& all;
  Index first;
  template <int R>
  [[nodiscard]] auto micro_panel(Index i, int n, Index k) const {
    return all.template micro_panel<R>(first + i, n, k);
  }
  [[nodiscard]] tile_a tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    return all.tiles(first + i, n, k, depth, copy);
  }
};

/// Packs the panels of b for multiply_dots. next_panel() is the panel from column j on, unpacked, for the prefetch.
template <term P = term::nearest, class S = bfloat16>
struct pair_packer {
  view<S const> b;
  [[nodiscard]] pair const* operator()(pair* memory, Index k, Index depth, Index j, Index cols, Index width) const {
    pack_pairs<P>(memory, width, b.middle_rows(k, depth).middle_cols(j, cols));
    return memory;
  }
  [[nodiscard]] view<S const> next_panel(Index k, Index depth, Index j) const {
    if (b.col_stride != 1 || j >= b.cols) return view<S const>(nullptr, 0, 0);
    return b.middle_rows(k, depth).middle_cols(j, (std::min)(register_block<float>::nr, b.cols - j));
  }
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail

HEADMIX_END_QUIET_BOUNDS
