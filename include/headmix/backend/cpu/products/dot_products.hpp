#pragma once
// SPDX-License-Identifier: MIT
// Products of bfloat16s by dot products: an instruction adds a0 b0 + a1 b1 to a float. b is packed in pairs of
// successive rows; pairs of successive elements of a are read in place.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "headmix/backend/cpu/products/micro_kernel.hpp"
#include "headmix/backend/cpu/products/pairs.hpp"
#include "headmix/backend/products.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// True if this unit has dot products.
#if defined(HEADMIX_ISA_HAS_DOTS)
inline constexpr bool compiles_dot_products = true;
#else
inline constexpr bool compiles_dot_products = false;
#endif

/// True if dot products are used: on AMD's CPUs, where they are twice as fast as multiply-adds of float, and with
/// tiles. Intel's dot products run at half the speed of multiply-adds (bench/results/2026-11-24-bfloat16-cpu.md and
/// 2026-11-23-bfloat16-cpu.md).
[[nodiscard]] inline bool has_dot_products() {
#if defined(HEADMIX_ISA_HAS_DOT_INSTRUCTION)
  static bool const fast = __builtin_cpu_is("amd") || has_tiles();
  return fast;
#else
  return compiles_dot_products;
#endif
}

namespace detail {

/// True if numbers of S may be multiplied in pairs, by dot products: known at compile time.
template <class S>
inline constexpr bool may_multiply_pairs = compiles_dot_products&& std::is_same_v<S, bfloat16>;
/// True if numbers of S are multiplied in pairs on this machine.
template <class S>
[[nodiscard]] inline bool multiplies_pairs() {
  if constexpr (may_multiply_pairs<S>) {
    return has_dot_products();
  } else {
    return false;
  }
}

/// True if numbers of S are floats that Products may round before they are multiplied: known at compile time.
template <class S, class Products>
inline constexpr bool may_round = std::is_same_v<S, float>&& compiles_dot_products&& Products::passes > 0 &&
                                  (Products::passes == 1 || compiles_tiles);
/// True if Products rounds floats on this machine.
template <class Products>
[[nodiscard]] inline bool rounds_products() {
  return Products::passes == 1 ? has_dot_products() : Products::passes > 1 && has_tiles();
}
/// f<term of a, term of b>(accumulate) for the passes of a product, the smallest terms first.
template <class Products, class F>
void each_pass(bool accumulate, F f) {
  if constexpr (Products::passes > 1) {
    f.template operator()<term::rest, term::nearest>(accumulate);
    f.template operator()<term::nearest, term::rest>(true);
  }
  f.template operator()<term::nearest, term::nearest>(accumulate || Products::passes > 1);
}

/// sum + a0 b0 + a1 b1, lane by lane.
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

/// to = from + a b for R rows of V vectors of floats or bfloat16s. `from` is added last, so the rounding error of a
/// deep product grows with the number of its parts.
/// @param from  null for zeros
/// @param b_row  pairs from row to row of b
template <int R, int V, class From, class To>
HEADMIX_WHOLE_VECTORS void pair_micro_kernel(Index depth, pair_micro_panel<R> const& a, pair const* b, Index b_row,
                                             From const* const* from, To* const* to) {
  vector<float> sum[R][V] = {};
  auto const add_pair = [&](Index at, pair const* row, auto element) __attribute__((always_inline)) {
    vector<pair> b_pairs[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b_pairs[v] = load(row + v * lanes<pair>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      vector<pair> const a_pair = vector<pair>{} + element(a.row[r] + at);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = add_dots(sum[r][v], a_pair, b_pairs[v]);
    }
  };
  Index at = 0;
#pragma GCC unroll 4
  for (Index k = 0; k + 1 < depth; k += 2, at += a.step, b += b_row) add_pair(at, b, both_elements);
  if (depth % 2 != 0) add_pair(at, b, first_element);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      if (from) sum[r][v] += load_as<float>(from[r] + v * lanes<float>);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)  // after all reads: several r may have one row
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store_as<To, float>(to[r] + v * lanes<float>, sum[r][v]);
}

/// pair_micro_kernel for n of R rows, from row i on, and `cols` columns of V vectors.
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
  pair_micro_kernel<R, V, source, number>(depth, a.template micro_panel<R>(i, n, k), b, b_row, starts ? start : nullptr,
                                          result);
  if (cols != width)
    for (int r = 0; r < n; ++r) std::copy_n(edge + r * width, cols, to(i + r));
}

/// to = from + a b for m rows and a panel b of V vectors.
template <int V, class A, class From, class To, class Between>
void multiply_pair_panel(Index m, Index cols, Index k, Index depth, A const& a, pair const* b, Index b_row, From from,
                         To to, Between& between) {
  constexpr int rows = register_block<float>::mr;
  for (Index i = 0; i < m; i += rows) {
    do_step(between);
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
/// to = from + a b for m rows and a panel b with the number of vectors from panel_vectors.
/// @param apart  whether tiles add `from` last; they start with it otherwise, which takes less time
template <class A, class From, class To, class Between = no_prefetch<float>>
void multiply_pair_panel(int vectors, Index m, Index cols, Index k, Index depth, A const& a, pair const* b, Index b_row,
                         From from, To to, Between between = {}, [[maybe_unused]] bool apart = false) {
  if constexpr (compiles_tiles) {
    if (has_tiles())
      return multiply_tile_panel(m, cols, vectors * lanes<float>, k, depth, a, b, b_row, from, to, between, apart);
  }
  if (vectors == 1) return multiply_pair_panel<1>(m, cols, k, depth, a, b, b_row, from, to, between);
  if constexpr (register_block<float>::vectors > 2)
    if (vectors == 2) return multiply_pair_panel<2>(m, cols, k, depth, a, b, b_row, from, to, between);
  multiply_pair_panel<register_block<float>::vectors>(m, cols, k, depth, a, b, b_row, from, to, between);
}
/// c = or += a[k .. k + depth) b for m rows of floats and a panel b of any depth.
template <class A, class Between = no_prefetch<float>>
void multiply_pair_columns(int vectors, Index m, Index cols, Index k, Index depth, A const& a, pair const* b,
                           Index b_row, bool accumulate, strided_rows<float> c, Between between = {}) {
  for (Index done = 0; done < depth; done += tuning::pairs_depth) {
    Index const part = (std::min)(tuning::pairs_depth, depth - done);
    pair const* const from = b + done / 2 * b_row;
    if (accumulate || done > 0) {
      multiply_pair_panel(vectors, m, cols, k + done, part, a, from, b_row, c, c, between);
    } else {
      multiply_pair_panel(vectors, m, cols, k, part, a, from, b_row, no_rows{}, c, between);
    }
  }
}

/// multiply(from, to) for a part of the depth. The first part starts with zeros or, to accumulate, with c; later parts
/// with `sums`. The last part goes to c, earlier parts to `sums`.
template <class C, class Sums, class F>
void multiply_pair_parts(bool goes_on, bool accumulate, bool is_last, C c, Sums sums, F multiply) {
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

/// Memory on the stack for copies of rows of a.
struct copied_rows {
  alignas(64) bfloat16 data[tuning::tile_copy];
  /// The rows of `depth` elements that fit, a multiple of tile_side.
  [[nodiscard]] static constexpr Index room(Index depth) {
    return tuning::tile_copy / tile_padded(depth, tile_depth) / tile_side * tile_side;
  }
};
/// f(first row, rows, copies) for the m rows of a in chunks of about equal size; copies hold columns [k, k + depth).
template <class A, class F>
void each_copy(Index m, A const& a, Index k, Index depth, copied_rows& copy, F f) {
  Index const row = tile_padded(depth, tile_depth), most = copied_rows::room(depth), times = (m + most - 1) / most;
  for (Index t = 0; t < times; ++t) {
    Index const i = m * t / times, n = m * (t + 1) / times - i;
    for (Index r = 0; r < n; r += tile_side)
      (void)a.tiles(i + r, (std::min)(tile_side, n - r), k, depth, copy.data + r * row);
    f(i, n, tiled_a{{{copy.data, row}}});
  }
}

/// c = a b or c += a b for m rows c(i) of successive floats or bfloat16s, rounded once. a has `depth` columns;
/// panel_of(memory, k, depth, j, cols, width) is the panel of rows [k, k + depth) and columns [j, j + cols) of b, with
/// `width` pairs from row to row of pairs.
template <class A, class C, class Panels>
void multiply_dots(Index m, C c, A const& a, Index depth, Index columns, Panels panel_of, bool accumulate) {
  if constexpr (compiles_tiles && !A::in_place) {
    // The rows of a are copied once for all panels.
    if (has_tiles() && copied_rows::room(depth) > 0) {
      copied_rows copy;
      return each_copy(m, a, 0, depth, copy, [&](Index i, Index n, tiled_a const& rows) {
        multiply_dots(n, part_of_rows(c, i, 0), rows, depth, columns, panel_of, accumulate);
      });
    }
  }
  using block = register_block<float>;
  constexpr Index most = tuning::pairs_depth, height = tuning::pairs_rows;
  alignas(64) pair packed[most / 2 * block::nr];
  alignas(64) float sum_data[height * block::nr];
  strided_rows<float> const sums{sum_data, block::nr};
  // A depth of more than a panel keeps its sums on the stack, some rows at a time.
  Index const at_once = depth <= most ? m : height;
  for (Index first = 0; first < m; first += at_once) {
    Index const n = (std::min)(at_once, m - first);
    a_below<A> const rows_of_a{a, first};
    for (Index j = 0, cols; j < columns; j += cols) {
      int const vectors = panel_vectors<float>(columns - j);
      Index const width = vectors * block::lanes;
      cols = (std::min)(width, columns - j);
      auto const rows = part_of_rows(c, first, j);
      for (Index k = 0; k < depth; k += most) {
        Index const part = (std::min)(most, depth - k);
        pair const* const panel = panel_of(packed, k, part, j, cols, width);
        panel_prefetch<float, std::remove_pointer_t<decltype(panel_of.next_panel(k, part, j).data)>> const prefetch(
            k + part < depth ? panel_of.next_panel(k + part, (std::min)(most, depth - k - part), j)
                             : panel_of.next_panel(0, (std::min)(most, depth), j + cols),
            n / block::mr);
        multiply_pair_parts(k > 0, accumulate, k + part == depth, rows, sums, [&](auto from, auto to) {
          multiply_pair_panel(vectors, n, cols, k, part, rows_of_a, panel, width, from, to, prefetch, true);
        });
      }
    }
  }
}
template <class A, class C>
void multiply_dots(Index m, C c, A const& a, view<bfloat16 const> b, bool accumulate) {
  multiply_dots(m, c, a, b.rows, b.cols, pair_packer<>{b}, accumulate);
}
/// c = a b or c += a b for m rows a(i) and c(i) of successive floats, in the passes of Products.
template <class Products, class Rows, class C>
void multiply_rounded(Index m, C c, Rows a, view<float const> b, bool accumulate) {
  constexpr Index most = tuning::pairs_depth;
  static_assert(copied_rows::room(most) > 0, "headmix: there is no room for a copied row");
  copied_rows copy;
  each_pass<Products>(accumulate, [&]<term A, term B>(bool add) {
    for (Index k = 0; k < b.rows; k += most) {
      Index const depth = (std::min)(most, b.rows - k);
      each_copy(m, rounded_a<Rows, A>{a}, k, depth, copy, [&](Index i, Index n, tiled_a const& rows) {
        multiply_dots(n, part_of_rows(c, i, 0), rows, depth, b.cols, pair_packer<B, float>{b.middle_rows(k, depth)},
                      add || k > 0);
      });
    }
  });
}

}  // namespace detail

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
