#pragma once
// SPDX-License-Identifier: MIT
// Tiles of 16-bit numbers in shared memory for the tensor cores: their layout, asynchronous copies of rows from global
// memory, and loads of product operands by a warp.

#include <cstdint>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/scalar.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// A tile with rows of `cols` elements, a power of two. A row is divided into chunks of 16 bytes, permuted so that the
/// chunks of equal number of eight rows are in different banks: neither copies nor matrix loads have bank conflicts.
template <int cols>
struct tile_layout {
  static_assert(cols >= 16 && (cols & (cols - 1)) == 0, "headmix: a tile's columns are a power of two from 16");
  static constexpr int chunks = cols / 8;  ///< per row

  /// The offset of chunk c of row i, in elements.
  [[nodiscard]] static HEADMIX_HD constexpr int offset(int i, int c) {
    // Unsigned: the remainder is a bit field, unchanged by 8 more rows.
    int const swizzle = static_cast<int>(static_cast<unsigned>(i) / rows_per_line % (chunks < 8 ? chunks : 8));
    return i * cols + (c ^ swizzle) * 8;
  }

 private:
  static constexpr unsigned rows_per_line = chunks < 8 ? 8 / chunks : 1;  ///< rows within 128 bytes, i.e. all banks
};

/// Two floats stored together.
struct alignas(8) float_pair {
  float low, high;
};
/// Four floats stored together.
struct alignas(16) float_quad {
  float a, b, c, d;

  friend HEADMIX_HD float_quad operator+(float_quad const& x, float_quad const& y) {
    return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
  }
};

/// The bits of two numbers rounded to T, `low` in the low half: two elements of a row, or of a fragment.
template <Half T = bfloat16>
[[nodiscard]] HEADMIX_HD std::uint32_t pack(float low, float high) {
  return word_half<T>::pack(low, high);
}
template <Half T = bfloat16>
[[nodiscard]] HEADMIX_HD float low_of(std::uint32_t both) {
  return word_half<T>::low(both);
}
template <Half T = bfloat16>
[[nodiscard]] HEADMIX_HD float high_of(std::uint32_t both) {
  return word_half<T>::high(both);
}

/// Transposes words among four neighbouring lanes: word i of lane l becomes word l of lane i.
template <class Device>
HEADMIX_DEVICE void transpose_words(Device& device, words<4>& w) {
  HEADMIX_UNROLL
  for (int step = 1; step < 4; step *= 2) {
    bool const second = (device.lane() & step) != 0;
    HEADMIX_UNROLL
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      std::uint32_t& low = w.word[i];
      std::uint32_t& high = w.word[i + step];
      std::uint32_t const got = device.shuffle_xor(second ? low : high, step);
      low = second ? got : low;
      high = second ? high : got;
    }
  }
}

/// Copies `rows` x `cols` elements into a tile, by `threads` threads; the caller is thread number `thread`. A thread
/// copies the same chunk of several rows: its p-th row is row(thread, p).
template <int rows, int cols, int threads>
struct tile_copy {
  using layout = tile_layout<cols>;
  static constexpr int rows_at_once = threads / layout::chunks;
  static constexpr int count = rows / rows_at_once;  ///< rows per thread
  static_assert(threads % layout::chunks == 0 && rows % rows_at_once == 0,
                "headmix: threads divide a tile's rows and chunks evenly");

  /// The p-th row of a thread.
  [[nodiscard]] static HEADMIX_HD constexpr int row(int thread, int p) {
    return static_cast<int>(static_cast<unsigned>(thread) / layout::chunks) + p * rows_at_once;
  }
  /// The first column of a thread's chunk.
  [[nodiscard]] static HEADMIX_HD constexpr int col(int thread) {
    return static_cast<int>(static_cast<unsigned>(thread) % layout::chunks) * 8;
  }

  /// source(p, row) is the address of column 0 of that row, a multiple of 16 bytes, or null for a row of zeros. Only
  /// the first `width` columns, a multiple of 8, are read; the others become 0. The caller commits.
  template <class Device, class Pointer, class Source>
  static HEADMIX_DEVICE void start(Device& device, Pointer tile, int thread, int width, Source const& source) {
    int const c = col(thread);
    HEADMIX_UNROLL
    for (int p = 0; p < count; ++p) {
      int const i = row(thread, p);
      auto const* const from = source(p, i);
      bool const valid = from != nullptr && c < width;
      device.cp_async16(tile + layout::offset(i, c / 8), valid ? from + c : from, valid);
    }
  }
  /// from[p] is the address of the thread's chunk of its p-th row in the first of several adjacent tiles, and `right`
  /// the column offset of this tile; rows that are not valid become 0. For many tiles of the same rows: addresses are
  /// computed once.
  template <class Device, class Pointer, class T>
  static HEADMIX_DEVICE void start_from(Device& device, Pointer tile, int thread, T const* const (&from)[count],
                                        bool const (&valid)[count], int right) {
    HEADMIX_UNROLL
    for (int p = 0; p < count; ++p) {
      device.cp_async16(tile + layout::offset(row(thread, p), col(thread) / 8), from[p] + right, valid[p]);
    }
  }
  /// Only the first `height` rows and `width` columns are read; the result of source for other rows is ignored.
  template <class Device, class Pointer, class Source>
  static HEADMIX_DEVICE void start(Device& device, Pointer tile, int thread, int height, int width,
                                   Source const& source) {
    int const c = col(thread), known = c < width ? c : 0;
    if (c >= width) height = 0;
    HEADMIX_UNROLL
    for (int p = 0; p < count; ++p) {
      int const i = row(thread, p);
      device.cp_async16(tile + layout::offset(i, c / 8), source(p, i) + known, i < height);
    }
  }
};

/// The address that a lane passes to ldmatrix for 16 x 16 elements of a tile. Matrices 0 1 2 3 of one load are the
/// quarters
///
///     0 2    `down_first`: the fragment of A from a tile of A, or two of B from a tile of B (both untransposed,
///     1 3                  rows x depth and depth x columns; B's load is the transposed one)
///     0 1    otherwise: the fragment of A from a tile of A^T (by the transposed load),
///     2 3               or two of B from a tile of B^T
///
/// A lane's offset is computed once; another part of the tile is one xor and one addition away.
template <int cols, bool down_first>
class fragment_position {
 public:
  /// The part of the tile from `row`, a multiple of 8, and `col`, a multiple of 16, on.
  HEADMIX_HD fragment_position(int lane, int row, int col)
      : offset_(tile_layout<cols>::offset(row + (down_first ? lane % 16 : lane % 8 + lane / 16 * 8),
                                          col / 8 + (down_first ? lane / 16 : lane / 8 % 2))) {}
  /// The offset `down` rows, a multiple of 8, and `right` columns, a multiple of 16, further. Columns must be added to
  /// a part that begins at column 0, or without a carry: a part of n columns, n a power of two, begins at a multiple of
  /// n, and right is less than n.
  [[nodiscard]] HEADMIX_HD int at(int down, int right) const { return (offset_ ^ right) + down * cols; }

 private:
  int offset_;
};

/// A lane's part of the 16 x 16 A fragment, from a tile of A.
template <class Device, class Pointer, int cols>
HEADMIX_DEVICE words<4> load_a(Device& device, Pointer tile, fragment_position<cols, true> const& position, int row,
                               int col) {
  return device.ldmatrix_x4(tile + position.at(row, col));
}
/// The A fragment from a tile of A^T: `row` is a depth, `col` a row of A.
template <class Device, class Pointer, int cols>
HEADMIX_DEVICE words<4> load_a_transposed(Device& device, Pointer tile, fragment_position<cols, false> const& position,
                                          int row, int col) {
  return device.ldmatrix_x4_trans(tile + position.at(row, col));
}
/// Two B fragments, 16 deep and 8 columns wide, from a tile of B: words 0 and 1, and words 2 and 3.
template <class Device, class Pointer, int cols>
HEADMIX_DEVICE words<4> load_b(Device& device, Pointer tile, fragment_position<cols, true> const& position, int row,
                               int col) {
  return device.ldmatrix_x4_trans(tile + position.at(row, col));
}
/// The B fragments from a tile of B^T: `row` is a column, `col` a depth of B.
template <class Device, class Pointer, int cols>
HEADMIX_DEVICE words<4> load_b_transposed(Device& device, Pointer tile, fragment_position<cols, false> const& position,
                                          int row, int col) {
  return device.ldmatrix_x4(tile + position.at(row, col));
}

/// c[i][j] += a[i] b[j]: 16 m x 8 n accumulators, b in the layout of load_b. Of the 16 x 8 accumulators of c[i][j],
/// lane l holds those of row l / 4, columns l % 4 * 2 and the next (0, 1), and of row l / 4 + 8, the same columns (2,
/// 3).
template <int m, int n, Half T = bfloat16, class Device>
HEADMIX_DEVICE void multiply_add(Device& device, float (&c)[m][n][4], words<4> const (&a)[m],
                                 words<4> const (&b)[n / 2]) {
  static_assert(n % 2 == 0, "headmix: fragments are loaded two at a time");
  static_assert(std::is_same_v<T, bfloat16>, "headmix: the devices have no matrix instruction for this type yet");
  HEADMIX_UNROLL
  for (int i = 0; i < m; ++i) {
    HEADMIX_UNROLL
    for (int j = 0; j < n / 2; ++j) {
      device.mma_m16n8k16(c[i][2 * j], a[i], words<2>{{b[j].word[0], b[j].word[1]}});
      device.mma_m16n8k16(c[i][2 * j + 1], a[i], words<2>{{b[j].word[2], b[j].word[3]}});
    }
  }
}

/// Stores accumulators rounded to T in a tile, from (row, col) on, or adds them to its content. `pairs` are the tile's
/// words of two elements; each word is accessed by one thread only.
template <int cols, Half T = bfloat16, int m, int n, class Pointer>
HEADMIX_DEVICE void store_accumulators(Pointer pairs, float const (&c)[m][n][4], int lane, int row, int col,
                                       bool add = false) {
  HEADMIX_UNROLL
  for (int i = 0; i < m; ++i) {
    HEADMIX_UNROLL
    for (int j = 0; j < n; ++j) {
      HEADMIX_UNROLL
      for (int half = 0; half < 2; ++half) {
        int const at = tile_layout<cols>::offset(row + 16 * i + 8 * half + lane / 4, col / 8 + j) / 2 + lane % 4;
        std::uint32_t const old = add ? pairs[at] : 0;
        pairs[at] = pack<T>(low_of<T>(old) + c[i][j][2 * half], high_of<T>(old) + c[i][j][2 * half + 1]);
      }
    }
  }
}

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
