#pragma once
// SPDX-License-Identifier: MIT
// Products of bfloat16s by the instruction that adds a0 b0 + a1 b1 to a float: two multiply-adds in one. b goes panel
// by panel, in pairs of successive rows, through a block of sums in registers; of a, pairs of successive elements are
// read where they lie.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "headmix/backend/cpu/micro_kernel.hpp"
#include "headmix/backend/cpu/tile_products.hpp"
#include "headmix/backend/cpu/transpose.hpp"
#include "headmix/core/scalar.hpp"

#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
#include <immintrin.h>
#endif

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu::inline HEADMIX_ISA {

/// Whether this unit has such products.
#if defined(HEADMIX_ISA_HAS_DOTS)
inline constexpr bool compiles_dot_products = true;
#else
inline constexpr bool compiles_dot_products = false;
#endif

/// Whether they are used: where they are faster than multiply-adds of float, or are made of tiles. On AMD's CPUs they
/// are twice as fast; Intel's do them at half the speed (bench/results/2026-11-24-bfloat16-cpu.md).
[[nodiscard]] inline bool has_dot_products() {
#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
  static bool const fast = __builtin_cpu_is("amd") || has_tiles();
  return fast;
#else
  return compiles_dot_products;
#endif
}

namespace detail {

/// Whether products of numbers of S may be made of them,
template <class S>
inline constexpr bool may_multiply_pairs = compiles_dot_products&& std::is_same_v<S, bfloat16>;
/// and whether they are.
template <class S>
[[nodiscard]] inline bool multiplies_pairs() {
  if constexpr (may_multiply_pairs<S>) {
    return has_dot_products();
  } else {
    return false;
  }
}

/// Element 0 or 1 of a pair.
[[nodiscard]] inline float element_of(pair both, Index which) {
  std::uint32_t const word = which == 0 ? both << 16 : both & 0xFFFF0000u;
  float x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}
/// sum + the products of both elements of a and of b.
HEADMIX_WHOLE_VECTORS inline vector<float> add_dots(vector<float> sum, vector<pair> a, vector<pair> b) {
#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
  return (vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
  auto const number = [](vector<pair> words) {
    vector<float> v;
    std::memcpy(&v, &words, sizeof v);
    return v;
  };
  return sum + number(a & 0xFFFF0000u) * number(b & 0xFFFF0000u) + number(a << 16) * number(b << 16);
#endif
}

/// Rows of a for a register block: where the pairs of row r begin, and bytes from one pair to the next. `depth`, the
/// number of elements, may be odd: then there is no second element in the last pair.
template <int R>
struct dot_rows {
  std::byte const* row[R];
  Index step;
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

/// R rows of V vectors of sums: = 0 or what `from` has, then the products, to `to`. Each is of floats or bfloat16s;
/// a null `from` is zeros.
/// @param b_row  pairs from row to row of b
template <int R, int V, class From, class To>
HEADMIX_WHOLE_VECTORS void multiply_pairs(Index depth, dot_rows<R> const& a, pair const* b, Index b_row,
                                          From const* const* from, To* const* to) {
  vector<float> sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      sum[r][v] = from ? load_as<float>(from[r] + v * lanes<float>) : vector<float>{};
    }
  auto const add_pair = [&](Index at, pair const* row, auto element) __attribute__((always_inline)) {
    vector<pair> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(row + v * lanes<pair>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      vector<pair> const left = vector<pair>{} + element(a.row[r] + at);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = add_dots(sum[r][v], left, right[v]);
    }
  };
  Index at = 0;
#pragma GCC unroll 4
  for (Index k = 0; k + 1 < depth; k += 2, at += a.step, b += b_row) add_pair(at, b, both_elements);
  if (depth % 2 != 0) add_pair(at, b, first_element);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store_as<To, float>(to[r] + v * lanes<float>, sum[r][v]);
}

/// Copies rows k of `cols` elements to pairs of rows, `width` pairs apart, with zeros behind the last column and for
/// the row that an odd depth lacks. row(k) is where row k begins, its elements lie `step` apart.
template <class Row>
HEADMIX_WHOLE_VECTORS void pack_pairs(pair* to, Index width, Index depth, Index cols, Index step, Row row) {
  constexpr Index n = vector_bytes / 2;  // elements in a register
  using order = std::make_index_sequence<static_cast<std::size_t>(n)>;
  static constexpr bfloat16 zeros[n] = {};
  for (Index k = 0; k < depth; k += 2, to += width) {
    bfloat16 const *const a = row(k), *const b = k + 1 < depth ? row(k + 1) : nullptr;
    Index j = 0;
    if (step == 1) {
      for (; j + n <= cols; j += n) {
        vector<std::uint16_t> low, high;
        std::memcpy(&low, a + j, sizeof low);
        std::memcpy(&high, b ? b + j : zeros, sizeof high);
        auto const first = interleave<0>(low, high, order{}), second = interleave<1>(low, high, order{});
        std::memcpy(to + j, &first, sizeof first);
        std::memcpy(to + j + n / 2, &second, sizeof second);
      }
    }
    for (; j < cols; ++j) to[j] = a[j * step].bits | (b ? pair{b[j * step].bits} << 16 : 0);
    std::fill(to + j, to + width, pair{0});
  }
}
/// The same of a panel of b.
inline void pack_pairs(pair* to, Index width, view<bfloat16 const> panel) {
  Index const depth = panel.rows, cols = panel.cols;
  bool const pairs_lie_together = panel.row_stride == 1 && panel.col_stride % 2 == 0 &&
                                  reinterpret_cast<std::uintptr_t>(panel.data) % sizeof(pair) == 0;
  if (!pairs_lie_together)
    return pack_pairs(to, width, depth, cols, panel.col_stride, [&](Index k) { return &panel(k, 0); });
  // Columns of pairs become rows of them.
  constexpr Index n = lanes<pair>;
  Index const squares = cols / n * n, deep = depth / 2 / n * n;
  for (Index j = 0; j < squares; j += n)
    for (Index k = 0; k < deep; k += n)
      transpose_square(to + k * width + j, width, reinterpret_cast<pair const*>(&panel(2 * k, j)),
                       panel.col_stride / 2);
  for (Index k = 0; k < (depth + 1) / 2; ++k, to += width) {
    for (Index j = k < deep ? squares : 0; j < cols; ++j)
      to[j] = panel(2 * k, j).bits | (2 * k + 1 < depth ? pair{panel(2 * k + 1, j).bits} << 16 : 0);
    std::fill(to + cols, to + width, pair{0});
  }
}

/// Left operands, as block<R>(i, rows, k) of micro_kernel.hpp has them, and tiles(i, n, k, depth, copy): n rows from
/// row i on and `depth` elements from k on, in place or in memory for a copy; k is even. Rows of successive elements,
template <class Rows>
struct dot_operand {
  static constexpr bool in_place = std::is_same_v<Rows, strided_rows<bfloat16 const>>;  ///< for whole tiles
  Rows rows;                                                                            ///< of bfloat16
  template <int R>
  [[nodiscard]] dot_rows<R> block(Index i, int n, Index k) const {
    dot_rows<R> left;
    for (int r = 0; r < R; ++r) left.row[r] = reinterpret_cast<std::byte const*>(rows(i + (std::min)(r, n - 1)) + k);
    left.step = sizeof(pair);
    return left;
  }
  [[nodiscard]] tile_left tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
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
/// rows that tiles of any part are read from as they are, since there are whole ones of them, zeros where they end,
struct tiled_operand : dot_operand<strided_rows<bfloat16 const>> {
  [[nodiscard]] tile_left tiles(Index i, Index, Index k, Index, bfloat16*) const { return {rows(i) + k, rows.stride}; }
};
/// or the columns of what pack_pairs() has made of a's transpose.
struct dot_columns {
  static constexpr bool in_place = false;
  pair const* data;
  Index width;
  template <int R>
  [[nodiscard]] dot_rows<R> block(Index i, int n, Index k) const {
    dot_rows<R> left;
    for (int r = 0; r < R; ++r)
      left.row[r] = reinterpret_cast<std::byte const*>(data + k / 2 * width + i + (std::min)(r, n - 1));
    left.step = width * static_cast<Index>(sizeof(pair));
    return left;
  }
  [[nodiscard]] tile_left tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    Index const row = tile_padded(depth, tile_depth), pairs = (depth + 1) / 2;
    std::fill_n(copy, tile_padded(n, tile_height) * row, bfloat16{});
    view<pair const> from(data + k / 2 * width + i, pairs, n);
    from.row_stride = width;
    transpose<pair>(reinterpret_cast<pair*>(copy), row / 2, from);
    return {copy, row};
  }
};

/// The rows of `all` from one on.
template <class A>
struct rows_below {
  static constexpr bool in_place = A::in_place;
  A const& all;
  Index first;
  template <int R>
  [[nodiscard]] auto block(Index i, int n, Index k) const {
    return all.template block<R>(first + i, n, k);
  }
  [[nodiscard]] tile_left tiles(Index i, Index n, Index k, Index depth, bfloat16* copy) const {
    return all.tiles(first + i, n, k, depth, copy);
  }
};

/// n rows of a register block of R, from row i on, and `cols` columns of V vectors: see multiply_pairs().
template <int R, int V, class A, class From, class To>
void multiply_pair_block(int n, Index i, Index cols, Index k, Index depth, A const& a, pair const* b, Index b_row,
                         From from, To to) {
  using source = std::remove_cvref_t<decltype(*from(0))>;
  using number = std::remove_cvref_t<decltype(*to(0))>;
  constexpr bool starts = !std::is_same_v<From, no_rows>;
  constexpr Index width = V * lanes<float>;
  alignas(64) source given[R * width];
  alignas(64) number edge[R * width];
  source const* start[R];
  number* result[R];
  for (int r = 0; r < R; ++r) {
    Index const row = i + (std::min)(r, n - 1);
    result[r] = cols == width ? to(row) : edge + r * width;
    if constexpr (starts) {
      start[r] = cols == width ? from(row) : given + r * width;
      if (cols != width) std::fill_n(std::copy_n(from(row), cols, given + r * width), width - cols, source{});
    }
  }
  multiply_pairs<R, V, source, number>(depth, a.template block<R>(i, n, k), b, b_row, starts ? start : nullptr, result);
  if (cols != width)
    for (int r = 0; r < n; ++r) std::copy_n(edge + r * width, cols, to(i + r));
}

/// m rows of one panel.
template <int V, class A, class From, class To>
void multiply_pair_panel(Index m, Index cols, Index k, Index depth, A const& a, pair const* b, Index b_row, From from,
                         To to) {
  constexpr int rows = register_block<float>::rows;
  for (Index i = 0; i < m; i += rows) {
    int const n = static_cast<int>((std::min)(Index{rows}, m - i));
    if (n == 1) {
      multiply_pair_block<1, V>(n, i, cols, k, depth, a, b, b_row, from, to);
    } else if (n <= 3) {
      multiply_pair_block<3, V>(n, i, cols, k, depth, a, b, b_row, from, to);
    } else {
      multiply_pair_block<rows, V>(n, i, cols, k, depth, a, b, b_row, from, to);
    }
  }
}
/// The same for a number of vectors that panel_vectors() returned.
template <class A, class From, class To>
void multiply_pair_panel(int vectors, Index m, Index cols, Index k, Index depth, A const& a, pair const* b, Index b_row,
                         From from, To to) {
  if constexpr (compiles_tiles) {
    if (has_tiles()) return multiply_tiles(m, cols, vectors * lanes<float>, k, depth, a, b, b_row, from, to);
  }
  if (vectors == 1) return multiply_pair_panel<1>(m, cols, k, depth, a, b, b_row, from, to);
  if constexpr (register_block<float>::vectors > 2)
    if (vectors == 2) return multiply_pair_panel<2>(m, cols, k, depth, a, b, b_row, from, to);
  multiply_pair_panel<register_block<float>::vectors>(m, cols, k, depth, a, b, b_row, from, to);
}
/// c = or += a[k .. k + depth) b for m rows of floats and a panel b of any depth.
template <class A>
void multiply_pair_columns(int vectors, Index m, Index cols, Index k, Index depth, A const& a, pair const* b,
                           Index b_row, bool accumulate, strided_rows<float> c) {
  for (Index done = 0; done < depth; done += tuning::pairs_depth) {
    Index const part = (std::min)(tuning::pairs_depth, depth - done);
    pair const* const from = b + done / 2 * b_row;
    if (accumulate || done > 0) {
      multiply_pair_panel(vectors, m, cols, k + done, part, a, from, b_row, c, c);
    } else {
      multiply_pair_panel(vectors, m, cols, k, part, a, from, b_row, no_rows{}, c);
    }
  }
}

/// multiply(from, to) for a part of the depth: sums start with nothing, with c, or where it is not the first part with
/// `sums`, and go there unless it is the last one.
template <class C, class Sums, class F>
void multiply_pairs_between(bool goes_on, bool accumulate, bool is_last, C c, Sums sums, F multiply) {
  auto const multiply_from = [&](auto from) {
    if (is_last) {
      multiply(from, c);
    } else {
      multiply(from, sums);
    }
  };
  if (goes_on) {
    multiply_from(sums);
  } else if (accumulate) {
    multiply_from(c);
  } else {
    multiply_from(no_rows{});
  }
}

/// Where multiply_dots takes panels of b from: it packs them to memory on its stack,
struct packs_pairs {
  view<bfloat16 const> b;
  [[nodiscard]] pair const* operator()(pair* memory, Index k, Index depth, Index j, Index cols, Index width) const {
    pack_pairs(memory, width, b.middle_rows(k, depth).middle_cols(j, cols));
    return memory;
  }
};

/// c = a b or c += a b for m rows c(i) of successive floats or bfloat16s, rounded once. `a` is a left operand of
/// `depth` elements; panel_of(memory, k, depth, j, cols, width) are rows [k, k + depth) and columns [j, j + cols) of b,
/// `width` pairs from row to row of pairs.
template <class A, class C, class Panels>
void multiply_dots(Index m, C c, A const& a, Index depth, Index columns, Panels panel_of, bool accumulate) {
  if constexpr (compiles_tiles && !A::in_place) {
    // Rows are copied once for all panels.
    Index const row = tile_padded(depth, tile_depth);
    if (has_tiles() && row <= tuning::tile_copy / tile_side) {
      alignas(64) bfloat16 copy[tuning::tile_copy];
      Index const most = (std::min)(tuning::pairs_rows, tuning::tile_copy / row / tile_side * tile_side);
      for (Index i = 0, n; i < m; i += n) {
        n = (std::min)(most, m - i);
        for (Index r = 0; r < n; r += tile_side)
          (void)a.tiles(i + r, (std::min)(tile_side, n - r), 0, depth, copy + r * row);
        multiply_dots(n, part_of_rows(c, i, 0), tiled_operand{{{copy, row}}}, depth, columns, panel_of, accumulate);
      }
      return;
    }
  }
  using block = register_block<float>;
  constexpr Index most = tuning::pairs_depth, height = tuning::pairs_rows;
  alignas(64) pair packed[most / 2 * block::cols];
  alignas(64) float sum_data[height * block::cols];
  strided_rows<float> const sums{sum_data, block::cols};
  // Sums go from registers to c where the whole depth is a panel's, else some rows of them to the stack in between.
  Index const at_once = depth <= most ? m : height;
  for (Index first = 0; first < m; first += at_once) {
    Index const n = (std::min)(at_once, m - first);
    rows_below<A> const left{a, first};
    for (Index j = 0, cols; j < columns; j += cols) {
      int const vectors = panel_vectors<float>(columns - j);
      Index const width = vectors * block::lanes;
      cols = (std::min)(width, columns - j);
      auto const rows = part_of_rows(c, first, j);
      for (Index k = 0; k < depth; k += most) {
        Index const part = (std::min)(most, depth - k);
        pair const* const panel = panel_of(packed, k, part, j, cols, width);
        multiply_pairs_between(k > 0, accumulate, k + part == depth, rows, sums, [&](auto from, auto to) {
          multiply_pair_panel(vectors, n, cols, k, part, left, panel, width, from, to);
        });
      }
    }
  }
}
template <class A, class C>
void multiply_dots(Index m, C c, A const& a, view<bfloat16 const> b, bool accumulate) {
  multiply_dots(m, c, a, b.rows, b.cols, packs_pairs{b}, accumulate);
}

}  // namespace detail

}  // namespace headmix::cpu::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
