#pragma once
// SPDX-License-Identifier: MIT
// Products of 8-bit activations and packed ternary weights (core/ternary.hpp). Rows of x are rounded once; a task
// unpacks the weights of some columns once; sums are integers, so their order is free.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "headmix/backend/cpu/experts/expert.hpp"
#include "headmix/backend/cpu/products/tile_products.hpp"
#include "headmix/backend/cpu/rows/quantize.hpp"
#include "headmix/core/ternary.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// Rows of x in 8 bits. Of the 16 numbers that meet a word of weights, number 4 j + p is byte 4 p + j: a shift of the
/// word by 2 p and a mask leave its weight in byte j.
template <class W>
struct rounded_rows {
  std::int8_t* numbers;  ///< `depth` per row, zeros at the end
  W* scales;             ///< of the rows
  Int* sums;             ///< of the numbers of each row
  Index depth;

  static constexpr Index bytes(Index rows, Index depth) {
    return scratch_bytes<std::int8_t>((checked(rows) * depth).value) + scratch_bytes<W>(rows) +
           scratch_bytes<Int>(rows);
  }
  rounded_rows(scratch_cutter& cut, Index rows, Index depth_)
      : numbers(cut.take<std::int8_t>(rows * depth_)),
        scales(cut.take<W>(rows)),
        sums(cut.take<Int>(rows)),
        depth(depth_) {}

  [[nodiscard]] std::int8_t* row(Index i) const { return numbers + i * depth; }
  template <class T>
  void round(Index i, T const* x, Index stride, Index cols) const {
    W const scale = row_scale(x, stride, cols);
    W const nothing =
        fold_sixteens(x, stride, cols, [](auto const& a, auto const& part) { return a + part * sixteen<T>(0); }).sum();
    if (nothing != 0) {  // a number was not finite
      std::fill_n(row(i), depth, std::int8_t{0});
      scales[i] = nothing;
      sums[i] = 0;
      return;
    }
    Int sum = 0;
    for_each_sixteen(x, stride, cols, [&](auto const& part, Index j, Index) {
      W rounded[16];
      Int n[16];
      rounded_int8(part, scale).store(rounded);
      for (int k = 0; k < 16; ++k) n[k] = static_cast<Int>(rounded[k]);
      std::int8_t bytes[16];
      for (int k = 0; k < 16; ++k) bytes[k] = static_cast<std::int8_t>(n[k]);
      for (int k = 0; k < 16; ++k) sum += n[k];
      vector<std::int8_t, 16> b;
      std::memcpy(&b, bytes, sizeof b);
      b = shuffle<0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15>(b, b);
      std::memcpy(row(i) + j, &b, sizeof b);
    });
    Index const written = (cols + 15) / 16 * 16;
    std::fill_n(row(i) + written, depth - written, std::int8_t{0});
    scales[i] = scale;
    sums[i] = sum;
  }
};

/// A way to multiply integers: `unpack` unpacks words of codes, a row of `cols` columns at a time, to weights;
/// `multiply` computes the sums of R rows and `cols` columns, R = 1, `few` or `rows`. The words of a column are a
/// multiple of `step`. This one sums in 16 bits, on any machine.
struct dots_of_shorts {
  using weight = std::int16_t;
  static constexpr int rows = 4, few = 1, vectors = 2, lanes = detail::lanes<weight>;
  static constexpr Index cols = vectors * lanes, weights_per_word = 16, step = 1;

  static void unpack(weight* to, Int const* codes, Index words) {
    for (Index w = 0; w < words; ++w) {
      for (int p = 0; p < 4; ++p) {
        for (int j = 0; j < 4; ++j) {
          for (Index c = 0; c < cols; ++c)
            to[c] = static_cast<weight>((codes[w * cols + c] >> (8 * j + 2 * p) & 3) - 1);
          to += cols;
        }
      }
    }
  }
  template <int R>
  HEADMIX_WHOLE_VECTORS static void multiply(Int* sums, std::int8_t const* const* numbers, Int const*,
                                             weight const* weights, Index words) {
    constexpr Index most = 240;  // products of up to 128 that a sum of 16 bits holds
    std::fill_n(sums, R * cols, Int{0});
    for (Index k = 0, depth = words * weights_per_word; k < depth;) {
      vector<weight> sum[R][vectors] = {};
      for (Index const end = (std::min)(k + most, depth); k < end; ++k) {
        vector<weight> right[vectors];
        std::memcpy(right, weights + k * cols, sizeof right);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          weight const left = numbers[r][k];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) sum[r][v] += left * right[v];
        }
      }
      weight part[R * cols];
      std::memcpy(part, sum, sizeof part);
      for (Index i = 0; i < R * cols; ++i) sums[i] += part[i];
    }
  }
};

/// Codes in bytes: words of four successive rows of weights, `cols` columns. A code is a weight + 1, so the sum of the
/// row's numbers is subtracted.
struct codes_in_bytes {
  using weight = Int;
  static constexpr Index cols = 64, weights_per_word = 4;

  static void unpack(weight* to, Int const* codes, Index words) {
    for (Index w = 0; w < words; ++w) {
      for (int p = 0; p < 4; ++p) {
        for (Index c = 0; c < cols; ++c) to[c] = codes[w * cols + c] >> (2 * p) & 0x03030303;
        to += cols;
      }
    }
  }
};

#if defined(__AVX512VNNI__)
/// Four products per instruction (AVX-512 VNNI).
struct dots_of_bytes : codes_in_bytes {
  static constexpr int rows = 6, few = 1, vectors = 4, lanes = 16;
  static constexpr Index step = 1;

  template <int R>
  static void multiply(Int* sums, std::int8_t const* const* numbers, Int const* number_sums, weight const* weights,
                       Index words) {
    __m512i sum[R][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_set1_epi32(-number_sums[r]);
    for (Index k = 0; k < words * weights_per_word; ++k) {
      __m512i right[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) right[v] = _mm512_loadu_si512(weights + k * cols + v * lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        Int four;
        std::memcpy(&four, numbers[r] + 4 * k, sizeof four);
        __m512i const left = _mm512_set1_epi32(four);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], right[v], left);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) _mm512_storeu_si512(sums + r * cols + v * lanes, sum[r][v]);
  }
};
using dots_of_vectors = dots_of_bytes;
#else
using dots_of_vectors = dots_of_shorts;
#endif

#if defined(HEADMIX_ISA_HAS_TILES)
/// Products of tiles: a row of a tile has 16 columns of four successive codes, read in place. Rows of x are copied.
struct dots_of_tiles : codes_in_bytes {
  using otherwise = dots_of_vectors;  ///< on machines without tiles of bytes
  static constexpr int rows = 2 * tile_height, few = tile_height;
  static constexpr Index step = tile_bytes / packed_ternary::weights_per_word;

  template <int R>
  static void multiply(Int* sums, std::int8_t const* const* numbers, Int const* number_sums, weight const* weights,
                       Index words) {
    constexpr Index height = tile_height;
    if constexpr (R == 1) {
#if defined(__AVX512VNNI__)
      // A tile of x would have one row that counts.
      dots_of_bytes::multiply<1>(sums, numbers, number_sums, weights, words);
#else
      std::int8_t const* same_numbers[height];
      Int same_sums[height];
      alignas(64) Int sums_of_same[height * cols];
      std::fill_n(same_numbers, height, numbers[0]);
      std::fill_n(same_sums, height, number_sums[0]);
      multiply<few>(sums_of_same, same_numbers, same_sums, weights, words);
      std::copy_n(sums_of_same, cols, sums);
#endif
    } else {
      constexpr Index most = 16;  // tiles of depth per copy, which the L1 cache holds
      alignas(64) std::int8_t copy[most * R * tile_bytes];
      for (Index r = 0; r < R; ++r) std::fill_n(sums + r * cols, cols, -number_sums[r]);
      tiles_in_use const in_use;
      for (Index k = 0, depth = words / step, n; k < depth; k += n) {
        n = (std::min)(most, depth - k);
        for (Index r = 0; r < R; ++r)
          for (Index t = 0; t < n; ++t)
            std::memcpy(copy + (t * R + r) * tile_bytes, numbers[r] + (k + t) * tile_bytes, tile_bytes);
        for (Index c = 0; c < cols; c += 2 * height) add<R>(sums + c, copy, weights + k * height * cols + c, n);
      }
    }
  }

 private:
  /// sums += x w for 32 columns and `depth` tiles: sums in registers 0 to 3, x in 4 and 5, w in 6 and 7.
  template <int R>
  static void add(Int* sums, std::int8_t const* x, weight const* w, Index depth) {
    using unit = tile_unit;
    constexpr Index height = tile_height, row = cols * static_cast<Index>(sizeof(Int));
    constexpr bool tall = R == rows;
    unit::load<0>(sums, row);
    unit::load<1>(sums + height, row);
    if constexpr (tall) {
      unit::load<2>(sums + height * cols, row);
      unit::load<3>(sums + height * cols + height, row);
    }
    for (Index k = 0; k < depth; ++k, x += R * tile_bytes, w += height * cols) {
      unit::load<6>(w, row);
      unit::load<4>(x, tile_bytes);
      unit::multiply_bytes<0, 4, 6>();
      unit::load<7>(w + height, row);
      unit::multiply_bytes<1, 4, 7>();
      if constexpr (tall) {
        unit::load<5>(x + height * tile_bytes, tile_bytes);
        unit::multiply_bytes<2, 5, 6>();
        unit::multiply_bytes<3, 5, 7>();
      }
    }
    unit::store<0>(sums, row);
    unit::store<1>(sums + height, row);
    if constexpr (tall) {
      unit::store<2>(sums + height * cols, row);
      unit::store<3>(sums + height * cols + height, row);
    }
  }
};
/// Units that differ only in __AMX_INT8__ share function names (simd/isa.hpp): the choice is made at run time, and
/// scratch has room for both.
using best_dots = dots_of_tiles;
#else
using best_dots = dots_of_vectors;
#endif

/// True if the machine may lack the instructions of Dots.
template <class Dots>
concept may_be_refused = requires {
  typename Dots::otherwise;
};

/// Words of a column, rounded up to whole steps.
template <class Dots>
constexpr Index padded_words(Index depth) {
  return (packed_ternary::column_words(depth) + Dots::step - 1) / Dots::step * Dots::step;
}
/// Scratch of a worker of packed_gemm, in bytes: words of codes by rows, and the unpacked weights.
template <class Dots>
constexpr Index packed_worker_bytes(Index words) {
  return scratch_bytes<Int>(words * Dots::cols) +
         scratch_bytes<typename Dots::weight>(words * Dots::weights_per_word * Dots::cols);
}

}  // namespace detail

/// Scratch that packed_gemm needs, in bytes: the rounded rows of x, and unpacked columns for each worker.
template <class Dots = detail::best_dots, class T>
[[nodiscard]] Index packed_gemm_scratch_bytes(view<T const> x, Index concurrency) {
  Index const words = detail::padded_words<Dots>(x.cols);
  auto const rounded = detail::rounded_rows<accumulator_t<T>>::bytes(x.rows, words * packed_ternary::weights_per_word);
  Index const bytes =
      (scratch_begins + rounded + checked(concurrency) * detail::packed_worker_bytes<Dots>(words)).value;
  if constexpr (detail::may_be_refused<Dots>) {
    return (std::max)(bytes, packed_gemm_scratch_bytes<typename Dots::otherwise>(x, concurrency));
  } else {
    return bytes;
  }
}

/// For every slot s of every expert e: y.row(s) = x.row(s / slots_per_row), rounded to 8 bits, times w[e], packed. Rows
/// of y whose slot has no expert become 0. Without perm all slots belong to expert 0. Rows that are not finite give
/// NaN.
template <class Dots = detail::best_dots, class T>
void packed_gemm(executor_ref executor, view<T> y, view<std::type_identity_t<T const>> x, view<Int const> w,
                 view<Int const> perm, view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
  using W = accumulator_t<T>;
  if constexpr (detail::may_be_refused<Dots>) {
    if (!has_byte_tiles())
      return packed_gemm<typename Dots::otherwise>(executor, y, x, w, perm, offsets, slots_per_row, scratch);
  }
  Int const all[] = {0, static_cast<Int>(y.rows)};
  if (perm.data == nullptr) offsets = view<Int const>(all, 1, 2);
  if (offsets(0, offsets.cols - 1) < y.rows) detail::set_to_zero(executor, y);
  Index const column_words = packed_ternary::column_words(x.cols), words = detail::padded_words<Dots>(x.cols);
  scratch_cutter cut(scratch);
  detail::rounded_rows<W> const rows(cut, x.rows, words * packed_ternary::weights_per_word);
  std::byte* const begin = cut.position();
  for_each_range(executor, x.rows, 4 * x.cols, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) rows.round(i, x.row(i), x.col_stride, x.cols);
  });
  Index const panels = (y.cols + Dots::cols - 1) / Dots::cols;
  Index blocks = 0;
  for (Index e = 0; e + 1 < offsets.cols; ++e) blocks += detail::slot_blocks(offsets, e, tuning::ternary_slots);
  for_each_task(executor, blocks * panels, [&](Index task, Index worker) {
    Index e = 0, b = task / panels, of_expert;
    for (; b >= (of_expert = detail::slot_blocks(offsets, e, tuning::ternary_slots)); ++e) b -= of_expert;
    Index const first = offsets(0, e), slots = offsets(0, e + 1) - first;
    Index const col = task % panels * Dots::cols, cols = (std::min)(Dots::cols, y.cols - col);
    scratch_cutter own(begin + worker * detail::packed_worker_bytes<Dots>(words));
    Int* const codes = own.take<Int>(words * Dots::cols);
    auto* const weights = own.take<typename Dots::weight>(words * Dots::weights_per_word * Dots::cols);
    Int const* const packed = w[e].data;
    Index const whole = cols < Dots::cols ? 0 : column_words * Dots::cols;
    std::fill_n(codes + whole, words * Dots::cols - whole, Int{0});
    detail::transpose<Int>(codes, Dots::cols,
                           view<Int const>(packed_ternary::column(packed, x.cols, col), cols, column_words));
    Dots::unpack(weights, codes, words);
    auto const weight_scale = static_cast<W>(packed_ternary::scale(packed));

    // R slots from slot i of the expert on, of which n exist; the last slot stands in for missing ones.
    auto const multiply = [&]<int R>(std::integral_constant<int, R>, Index i, Index n) {
      Index slot[R], row[R];
      std::int8_t const* numbers[R];
      Int number_sums[R];
      for (Index r = 0; r < R; ++r) {
        Index const position = first + i + (std::min)(r, n - 1);
        slot[r] = perm.data ? perm(0, position) : position;
        row[r] = static_cast<Index>(static_cast<std::uint32_t>(slot[r]) / static_cast<std::uint32_t>(slots_per_row));
        numbers[r] = rows.row(row[r]);
        number_sums[r] = rows.sums[row[r]];
      }
      alignas(64) Int sums[R * Dots::cols];
      Dots::template multiply<R>(sums, numbers, number_sums, weights, words);
      for (Index r = 0; r < n; ++r) {
        W const scale = weight_scale / rows.scales[row[r]];
        Int const* const from = sums + r * Dots::cols;
        T* const to = y.row(slot[r]) + col * y.col_stride;
        auto const value = [from, scale](Index c) { return static_cast<T>(static_cast<W>(from[c]) * scale); };
        if (y.col_stride == 1) {
          for (Index c = 0; c < cols; ++c) to[c] = value(c);
        } else {
          for (Index c = 0; c < cols; ++c) to[c * y.col_stride] = value(c);
        }
      }
    };
    for (Index i = slots * b / of_expert, end = slots * (b + 1) / of_expert; i < end; i += Dots::rows) {
      Index const n = (std::min)(Index{Dots::rows}, end - i);
      if (n == 1) {
        multiply(std::integral_constant<int, 1>{}, i, n);
      } else if (n <= Dots::few) {
        multiply(std::integral_constant<int, Dots::few>{}, i, n);
      } else {
        multiply(std::integral_constant<int, Dots::rows>{}, i, n);
      }
    }
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
