#pragma once
// SPDX-License-Identifier: MIT
// Products of bfloat16s by tiles: blocks of up to 32 x 32 sums, two tiles of a and two of b at a time, so that a load
// serves two products. b is packed in pairs, as for dot products; rows of a at equal distances are read in place,
// others are copied.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/products/packed_a.hpp"
#include "headmix/backend/cpu/products/prefetch.hpp"
#include "headmix/backend/cpu/simd/tiles.hpp"
#include "headmix/core/scalar.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail {

using pair = std::uint32_t;

/// Rows and columns of a block of sums, and the depth of a tile of a or b.
inline constexpr Index tile_side = 2 * tile_height, tile_depth = 2 * tile_height;
[[nodiscard]] constexpr Index tile_padded(Index n, Index each) { return (n + each - 1) / each * each; }

/// No rows: sums start with zeros.
struct no_rows {
  [[nodiscard]] float const* operator()(Index) const { return nullptr; }
};
/// Rows from row i and column j on.
template <class Rows>
[[nodiscard]] auto part_of_rows(Rows const& rows, Index i, Index j) {
  if constexpr (std::is_same_v<Rows, no_rows>) {
    return rows;
  } else if constexpr (std::is_same_v<Rows, strided_rows<float>>) {
    return strided_rows<float>{rows(i) + j, rows.stride};
  } else {
    return [rows, i, j](Index r) { return rows(i + r) + j; };
  }
}

/// Rows of a, whole tiles.
struct tile_a {
  bfloat16 const* data;
  Index row;  ///< elements from row to row
};

/// A step of the work between products: a prefetch or other work.
template <class Between>
void do_step(Between& between) {
  prefetch_request<float> const next = between.step();
  for (Index r = 0; r < next.panel_rows; ++r) next.fetch_panel_row(r);
}

#if defined(HEADMIX_ISA_HAS_TILES)

/// Rows x Cols tiles of sums in registers 0 to 3, tiles of a in 4 and 5, of b in 6 and 7.
template <int Rows, int Cols>
struct tile_block {
  using unit = tile_unit;

  static void zero() {
    each([]<int R, int C>() { unit::zero<2 * R + C>(); });
  }
  static void load(float const* from, Index row) {
    each([&]<int R, int C>() {
      unit::load<2 * R + C>(from + (R * row + C) * tile_height, row * static_cast<Index>(sizeof(float)));
    });
  }
  static void store(float* to, Index row) {
    each([&]<int R, int C>() {
      unit::store<2 * R + C>(to + (R * row + C) * tile_height, row * static_cast<Index>(sizeof(float)));
    });
  }
  static void add(bfloat16 const* a, Index a_row, pair const* b, Index b_row) {
    Index const a_bytes = a_row * static_cast<Index>(sizeof(bfloat16)),
                b_bytes = b_row * static_cast<Index>(sizeof(pair));
    unit::load<6>(b, b_bytes);
    unit::load<4>(a, a_bytes);
    unit::multiply<0, 4, 6>();
    if constexpr (Cols == 2) {
      unit::load<7>(b + tile_height, b_bytes);
      unit::multiply<1, 4, 7>();
    }
    if constexpr (Rows == 2) {
      unit::load<5>(a + tile_height * a_row, a_bytes);
      unit::multiply<2, 5, 6>();
      if constexpr (Cols == 2) unit::multiply<3, 5, 7>();
    }
  }

 private:
  template <class F>
  static void each(F f) {
    f.template operator()<0, 0>();
    if constexpr (Cols == 2) f.template operator()<0, 1>();
    if constexpr (Rows == 2) f.template operator()<1, 0>();
    if constexpr (Rows == 2 && Cols == 2) f.template operator()<1, 1>();
  }
};

inline constinit thread_local bool thread_has_tiles = false;

/// The thread's tile registers are configured while its outermost object lives: to configure and to release them takes
/// about as long as some products.
class tiles_in_use {
 public:
  /// @param wanted  whether products will use tiles
  explicit tiles_in_use(bool wanted = true) : begins_(wanted && !thread_has_tiles) {
    if (!begins_) return;
    tile_unit::begin();
    thread_has_tiles = true;
  }
  ~tiles_in_use() {
    if (!begins_) return;
    tile_unit::end();
    thread_has_tiles = false;
  }
  tiles_in_use(tiles_in_use const&) = delete;
  tiles_in_use& operator=(tiles_in_use const&) = delete;

 private:
  bool begins_;
};

/// to = from + a b for a block of n rows and `cols` columns; `from` and `to` are rows of floats or bfloat16s.
/// @param readable  columns of b that may be read
/// @param a  rows of `depth` elements, zeros behind them up to whole tiles
/// @param between  work of which a step runs after some products, in their shadow
/// @param apart  whether `from` is added last
template <int Rows, int Cols, class From, class To, class Between>
void multiply_tile_block(Index n, Index cols, Index readable, Index depth, tile_a a, pair const* b, Index b_row,
                         From from, To to, Between& between, bool apart) {
  using block = tile_block<Rows, Cols>;
  constexpr Index height = Rows * tile_height, width = Cols * tile_height;
  constexpr bool starts = !std::is_same_v<From, no_rows>, from_floats = std::is_same_v<From, strided_rows<float>>,
                 to_floats = std::is_same_v<To, strided_rows<float>>;
  bool const whole = n == height && cols == width, adds = starts && apart;
  alignas(64) float sums[height * width];
  if (!starts || apart) {
    block::zero();
  } else if (from_floats && whole) {
    if constexpr (from_floats) block::load(from(0), from.stride);
  } else {
    std::fill_n(sums, height * width, 0.0f);
    for (Index r = 0; r < n; ++r) convert_row(sums + r * width, from(r), cols);
    block::load(sums, width);
  }
  constexpr Index some = tuning::tiles_between * tile_depth;
  for (Index k = 0; k < depth; k += tile_depth) {
    if (k > 0 && k % some == 0) do_step(between);
    pair const* const rows = b + k / 2 * b_row;
    if (k + tile_depth <= depth && readable >= width) {
      block::add(a.data + k, a.row, rows, b_row);
      continue;
    }
    // Behind the last rows and columns of b memory may hold anything: they are copied, with zeros up to whole tiles.
    alignas(64) pair last[tile_height * width] = {};
    for (Index r = 0; r < (std::min)(tile_height, (depth - k + 1) / 2); ++r)
      std::copy_n(rows + r * b_row, (std::min)(width, readable), last + r * width);
    block::add(a.data + k, a.row, last, width);
  }
  do_step(between);
  if (to_floats && whole && !adds) {
    if constexpr (to_floats) block::store(to(0), to.stride);
    return;
  }
  block::store(sums, width);
  for (Index r = 0; r < n; ++r) {
    float* const sum = sums + r * width;
    if (adds) {
      float start[width];
      convert_row(start, from(r), cols);
      for (Index c = 0; c < cols; ++c) sum[c] += start[c];
    }
    convert_row(to(r), sum, cols);
  }
}

/// to = from + a b for m rows and a panel b, of which `width` columns may be read: see multiply_pair_panel().
template <class A, class From, class To, class Between>
void multiply_tile_panel(Index m, Index cols, Index width, Index k, Index depth, A const& a, pair const* b, Index b_row,
                         From from, To to, Between& between, bool apart) {
  alignas(64) bfloat16 copy[tile_side * (tuning::pairs_depth + tile_depth)];
  tiles_in_use const in_use;
  for (Index i = 0; i < m; i += tile_side) {
    Index const n = (std::min)(tile_side, m - i);
    tile_a const tiles = a.tiles(i, n, k, depth, copy);
    for (Index j = 0; j < cols; j += tile_side) {
      Index const some = (std::min)(tile_side, cols - j);
      auto const multiply = [&]<int Rows, int Cols>() {
        multiply_tile_block<Rows, Cols>(n, some, width - j, depth, tiles, b + j, b_row, part_of_rows(from, i, j),
                                        part_of_rows(to, i, j), between, apart);
      };
      bool const tall = n > tile_height, wide = width - j > tile_height;
      if (tall && wide) {
        multiply.template operator()<2, 2>();
      } else if (tall) {
        multiply.template operator()<2, 1>();
      } else if (wide) {
        multiply.template operator()<1, 2>();
      } else {
        multiply.template operator()<1, 1>();
      }
    }
  }
}

#endif

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA::detail
