#pragma once
// SPDX-License-Identifier: MIT
// Weights of 1.58 bits (Ma et al. 2024, "The Era of 1-bit LLMs"): -1, 0 or 1 times one scale per matrix, and
// activations of eight bits with one scale per row. Halves round to even.

#include <bit>
#include <cmath>
#include <cstdint>

#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// The scale of 8-bit activations of a row, 127 / max(largest |x|, 1e-5), by which they are multiplied before rounding.
/// An infinity makes it 0, and so the whole row NaN.
template <class T>
HEADMIX_HD constexpr T absmax_scale(T largest) {
  return T(127) / (largest > T(1e-5) ? largest : T(1e-5));
}
/// x times the row's scale, rounded to an integer, -128 .. 127; NaN for NaN.
template <class T>
HEADMIX_HD T absmax_int8_of(T x, T scale) {
  using std::rint;
  T const n = rint(x * scale);
  return n < T(-128) ? T(-128) : n > T(127) ? T(127) : n;
}
/// The scale of ternary weights of a matrix: max(mean of |w|, 1e-5). A non-finite weight makes it infinite or NaN, and
/// so all weights of the matrix NaN.
template <class T>
HEADMIX_HD constexpr T absmean_scale(T mean) {
  return mean < T(1e-5) ? T(1e-5) : mean;
}
/// w / scale rounded to -1, 0 or 1. The comparison matches rounding to even: one half gives 0.
template <class T>
HEADMIX_HD constexpr T ternary_of(T w, T scale) {
  T const n = w * (T(1) / scale);
  return n > T(0.5) ? T(1) : n < T(-0.5) ? T(-1) : T(0);
}

/// A ternary matrix [in, out] packed in 32-bit words: two words hold the scale, a double; the columns follow, 16
/// weights per word, the first in the lowest two bits; 0, 1 and 2 encode -1, 0 and 1.
namespace packed_ternary {

/// Words before the first column, and 2-bit weights per word.
inline constexpr Index header_words = 2, weights_per_word = 16;

/// Words of one column of `in` weights.
[[nodiscard]] constexpr Index column_words(Index in) { return (in + weights_per_word - 1) / weights_per_word; }
/// Words of a matrix [in, out].
[[nodiscard]] constexpr Index words(Index in, Index out) { return header_words + out * column_words(in); }

/// The scale of a packed matrix.
inline double scale(Int const* packed) {
  auto const low = static_cast<std::uint32_t>(packed[0]), high = static_cast<std::uint32_t>(packed[1]);
  return std::bit_cast<double>(static_cast<std::uint64_t>(high) << 32 | low);
}
/// The weights of a column.
inline Int const* column(Int const* packed, Index in, Index j) { return packed + header_words + j * column_words(in); }
/// Weight i of a column: -1, 0 or 1.
inline int weight(Int const* column, Index i) {
  auto const word = static_cast<std::uint32_t>(column[i / weights_per_word]);
  return static_cast<int>(word >> (2 * (i % weights_per_word)) & 3) - 1;
}

/// Packs w, [in, out], into words(in, out) words. A non-finite weight makes the scale non-finite, and products NaN.
template <class T>
void pack(Int* packed, view<T const> w) {
  using W = accumulator_t<T>;
  double sum = 0;
  for (Index i = 0; i < w.rows; ++i)
    for (Index j = 0; j < w.cols; ++j) sum += static_cast<double>(std::abs(static_cast<W>(w(i, j))));
  W const s = absmean_scale(w.size() == 0 ? W(0) : static_cast<W>(sum / static_cast<double>(w.size())));
  auto const bits = std::bit_cast<std::uint64_t>(static_cast<double>(s));
  packed[0] = static_cast<Int>(static_cast<std::uint32_t>(bits));
  packed[1] = static_cast<Int>(static_cast<std::uint32_t>(bits >> 32));
  for (Index j = 0; j < w.cols; ++j) {
    for (Index first = 0, word = 0; first < w.rows; first += weights_per_word, ++word) {
      std::uint32_t codes = 0;
      for (Index i = first; i < w.rows && i < first + weights_per_word; ++i) {
        auto const code = static_cast<std::uint32_t>(static_cast<int>(ternary_of(static_cast<W>(w(i, j)), s)) + 1);
        codes |= code << (2 * (i - first));
      }
      packed[header_words + j * column_words(w.rows) + word] = static_cast<Int>(codes);
    }
  }
}

}  // namespace packed_ternary
}  // namespace headmix
