#pragma once
// SPDX-License-Identifier: MIT
// Dense products. A product is cut into tasks by its shape alone, so its result does not depend on the executor.
// Nothing is allocated.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/products/dot_products.hpp"
#include "headmix/backend/cpu/products/multiply_panels.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Rows [i, i + m) and columns [j, j + n).
template <class T>
[[nodiscard]] constexpr view<T> block(view<T> const& v, Index i, Index j, Index m, Index n) {
  return v.middle_rows(i, m).middle_cols(j, n);
}

namespace detail {

/// Sets n elements of a row to zero.
template <class T>
void clear_row(view<T> const& v, Index row, Index n) {
  if (v.col_stride == 1) {
    std::fill_n(v.row(row), n, T(0));
  } else {
    for (Index j = 0; j < n; ++j) v.row(row)[j * v.col_stride] = T(0);
  }
}
template <class T>
void clear(view<T> m) {
  for (Index i = 0; i < m.rows; ++i) clear_row(m, i, m.cols);
}

/// Copies a matrix to one of numbers of another type.
template <class To, class From>
void convert(view<To> to, view<From> from) {
  for (Index i = 0; i < to.rows; ++i) {
    if (to.col_stride == 1 && from.col_stride == 1) {
      convert_row(to.row(i), from.row(i), to.cols);
    } else {
      for (Index j = 0; j < to.cols; ++j) to(i, j) = static_cast<To>(static_cast<accumulator_t<To>>(from(i, j)));
    }
  }
}

/// c = a b or c += a b for any strides and types: tiles are copied to the stack, multiplied there and stored back.
template <class C, class A, class B>
void multiply_strided(view<C> c, view<A const> a, view<B const> b, bool accumulate) {
  using T = std::common_type_t<accumulator_t<C>, accumulator_t<A>, accumulator_t<B>>;
  constexpr Index size = tuning::strided_tile;
  alignas(64) T a_data[size * size], b_data[size * size], sum_data[size * size];
  auto const load = [](T* to, auto const& from) {
    for (Index i = 0; i < from.rows; ++i)
      for (Index j = 0; j < from.cols; ++j) to[i * from.cols + j] = static_cast<T>(from(i, j));
  };
  for (Index i = 0; i < c.rows; i += size) {
    Index const rows = (std::min)(size, c.rows - i);
    for (Index j = 0; j < c.cols; j += size) {
      Index const cols = (std::min)(size, c.cols - j);
      view<C> const result = block(c, i, j, rows, cols);
      view<T> const sum(sum_data, rows, cols);
      if (accumulate) load(sum_data, result);
      for (Index k = 0; k < a.cols; k += size) {
        Index const depth = (std::min)(size, a.cols - k);
        load(a_data, block(a, i, k, rows, depth));
        load(b_data, block(b, k, j, depth, cols));
        multiply_panels<T>(sum, view<T>(a_data, rows, depth), view<T>(b_data, depth, cols), accumulate || k > 0);
      }
      for (Index p = 0; p < rows; ++p)
        for (Index q = 0; q < cols; ++q) result(p, q) = static_cast<C>(sum(p, q));
    }
  }
}

/// The rows of a matrix with col_stride 1.
template <class T>
strided_rows<T> rows_of(view<T> const& m) {
  return {m.data, m.row_stride};
}
/// c = a b or c += a b by dot products, for a with row_stride 1: a is packed in pairs, some rows at a time.
template <term A = term::nearest, term B = term::nearest, class C, class S>
void multiply_columns_by_dots(view<C> c, view<S const> a, view<S const> b, bool accumulate) {
  constexpr Index height = tuning::pairs_rows, width = tuning::widened_cols, most = tuning::pairs_columns;
  alignas(64) pair columns[most / 2 * height];
  alignas(64) float sum_data[height * width];
  for (Index i = 0; i < c.rows; i += height)
    for (Index j = 0; j < c.cols; j += width) {
      view<C> const result = block(c, i, j, (std::min)(height, c.rows - i), (std::min)(width, c.cols - j));
      view<float> const sum(sum_data, result.rows, result.cols);
      if (accumulate) convert(sum, result);
      for (Index k = 0; k < a.cols; k += most) {
        Index const depth = (std::min)(most, a.cols - k);
        pack_pairs<A>(columns, result.rows, depth, result.rows, a.row_stride, [&](Index p) { return &a(i, k + p); });
        multiply_dots(result.rows, rows_of(sum), packed_pairs_a{columns, result.rows}, depth, result.cols,
                      pair_packer<B, S>{block(b, k, j, depth, result.cols)}, accumulate || k > 0);
      }
      convert(result, sum);
    }
}
/// c = a b or c += a b by dot products, for a with row_stride or col_stride 1.
template <class C>
void multiply_by_dots(view<C> c, view<bfloat16 const> a, view<bfloat16 const> b, bool accumulate) {
  if (a.col_stride != 1) return multiply_columns_by_dots(c, a, b, accumulate);
  multiply_dots(c.rows, rows_of(c), pairs_a<strided_rows<bfloat16 const>>{rows_of(a)}, b, accumulate);
}
/// c = a b or c += a b of floats in the passes of Products, for a with row_stride or col_stride 1.
template <class Products>
void multiply_rounded(view<float> c, view<float const> a, view<float const> b, bool accumulate) {
  if (a.col_stride == 1) return multiply_rounded<Products>(c.rows, rows_of(c), rows_of(a), b, accumulate);
  each_pass<Products>(accumulate, [&]<term A, term B>(bool add) { multiply_columns_by_dots<A, B>(c, a, b, add); });
}

/// c = a b or c += a b of numbers that are narrower than the accumulator, for c with col_stride 1: tiles of a are
/// widened on the stack, panels of b as they are packed, and c is rounded once.
template <class C, class A, class B>
void multiply_widened(view<C> c, view<A> a, view<B> b, bool accumulate) {
  using T = accumulator_t<C>;
  if constexpr (may_multiply_pairs<std::remove_const_t<A>> && std::is_same_v<A, B>) {
    if (has_dot_products() && (a.col_stride == 1 || a.row_stride == 1)) return multiply_by_dots(c, a, b, accumulate);
  }
  constexpr Index height = tuning::widened_rows, width = tuning::widened_cols, most = tuning::widened_depth;
  alignas(64) T a_data[height * most], sum_data[height * width];
  for (Index i = 0; i < c.rows; i += height) {
    Index const rows = (std::min)(height, c.rows - i);
    for (Index j = 0; j < c.cols; j += width) {
      view<C> const result = block(c, i, j, rows, (std::min)(width, c.cols - j));
      view<T> const sum(sum_data, rows, result.cols);
      if (accumulate) convert(sum, result);
      for (Index k = 0; k < a.cols; k += most) {
        view<T> const a_tile(a_data, rows, (std::min)(most, a.cols - k));
        view<A> const from = block(a, i, k, rows, a_tile.cols);
        if (a.col_stride == 1) {
          convert(a_tile, from);
        } else {
          transpose<T>(a_tile.data, a_tile.row_stride, from.transposed());
        }
        multiply_panels<T>(sum, a_tile, block(b, k, j, a_tile.cols, result.cols), accumulate || k > 0);
      }
      convert(result, sum);
    }
  }
}

}  // namespace detail

/// c = a b or c += a b on the calling thread. Fast for c with a unit stride and one accumulator type; fastest for b
/// with the unit stride of c.
/// @tparam Products  rounds floats where c and a, or c^T and b^T, have a unit stride
template <class Products = products::exact, class C, class A, class B>
void multiply(view<C> c, view<A> a, view<B> b, bool accumulate) {
  if (c.rows == 0 || c.cols == 0) return;
  if (a.cols == 0) {
    if (!accumulate) detail::clear(c);
    return;
  }
  using T = accumulator_t<C>;
  constexpr bool same = std::is_same_v<C, std::remove_const_t<A>> && std::is_same_v<C, std::remove_const_t<B>>;
  if constexpr (same && detail::may_round<C, Products>) {
    if (detail::rounds_products<Products>()) {
      auto const unit = [](auto const& m) { return m.row_stride == 1 || m.col_stride == 1; };
      if (c.col_stride == 1 && unit(a)) return detail::multiply_rounded<Products>(c, a, b, accumulate);
      if (c.row_stride == 1 && unit(b))
        return detail::multiply_rounded<Products>(c.transposed(), b.transposed(), a.transposed(), accumulate);
    }
  }
  if constexpr (same && std::is_same_v<C, T>) {
    if (c.col_stride == 1) return detail::multiply_panels<C>(c, a, b, accumulate);
    if (c.row_stride == 1)
      return detail::multiply_panels<C>(c.transposed(), b.transposed(), a.transposed(), accumulate);
  } else if constexpr (std::is_same_v<T, accumulator_t<A>> && std::is_same_v<T, accumulator_t<B>>) {
    if (c.col_stride == 1) {
      if constexpr (std::is_same_v<C, T> && std::is_same_v<std::remove_const_t<A>, T>) {
        if (a.col_stride == 1) return detail::multiply_panels<T>(c, a, b, accumulate);
      }
      return detail::multiply_widened(c, a, b, accumulate);
    }
    if (c.row_stride == 1) return detail::multiply_widened(c.transposed(), b.transposed(), a.transposed(), accumulate);
  }
  detail::multiply_strided<C, std::remove_const_t<A>, std::remove_const_t<B>>(c, a, b, accumulate);
}

namespace detail {

/// total = or += part
template <class T>
void add_part(view<double> total, view<T> part, bool accumulate) {
  for (Index i = 0; i < part.rows; ++i)
    for (Index j = 0; j < part.cols; ++j)
      total(i, j) = (accumulate ? total(i, j) : 0) + static_cast<double>(part(i, j));
}
/// c = or += total, rounded once
template <class C>
void put_total(view<C> c, view<double> total, bool accumulate) {
  for (Index i = 0; i < c.rows; ++i)
    for (Index j = 0; j < c.cols; ++j) {
      auto const old = accumulate ? static_cast<double>(c(i, j)) : 0;
      c(i, j) = static_cast<C>(static_cast<accumulator_t<C>>(old + total(i, j)));
    }
}

/// c = or += a b for a c of at most mc x nc and a depth of more than product_depth: the products of parts of the depth
/// are added one by one, in double where c is narrow, so the rounding error is that of a part plus an addition per
/// part.
template <class Products, class C, class A, class B>
void multiply_deep(view<C> c, view<A> a, view<B> b, bool accumulate) {
  if (c.col_stride != 1 && c.row_stride == 1)
    return multiply_deep<Products>(c.transposed(), b.transposed(), a.transposed(), accumulate);
  using T = std::common_type_t<accumulator_t<C>, accumulator_t<A>, accumulator_t<B>>;
  constexpr bool narrow = !std::is_same_v<C, T>;
  constexpr Index height = narrow ? tuning::widened_rows : (std::max)(tuning::mc, tuning::nc);
  constexpr Index width = narrow ? tuning::widened_cols : tuning::mc, most = tuning::product_depth;
  alignas(64) T part_data[height * width];
  auto const each_part = [&](view<C> result, Index i, Index j, Index first, auto add) {
    view<T> const part(part_data, result.rows, result.cols);
    for (Index k = first; k < a.cols; k += most) {
      Index const depth = (std::min)(most, a.cols - k);
      multiply<Products>(part, block(a, i, k, part.rows, depth), block(b, k, j, depth, part.cols), false);
      add(part, k > 0);
    }
  };
  if constexpr (narrow) {
    alignas(64) double total_data[height * width];
    for (Index i = 0; i < c.rows; i += height)
      for (Index j = 0; j < c.cols; j += width) {
        view<C> const result = block(c, i, j, (std::min)(height, c.rows - i), (std::min)(width, c.cols - j));
        view<double> const total(total_data, result.rows, result.cols);
        each_part(result, i, j, 0, [&](view<T> part, bool add) { add_part(total, part, add); });
        put_total(result, total, accumulate);
      }
  } else {
    multiply<Products>(c, a.middle_cols(0, most), b.middle_rows(0, most), accumulate);
    each_part(c, 0, 0, most, [&](view<T> part, bool) {
      for (Index i = 0; i < c.rows; ++i)
        for (Index j = 0; j < c.cols; ++j) c(i, j) += part(i, j);
    });
  }
}

}  // namespace detail

/// Extents of the tasks that a rows x cols result is cut into: mc x nc, or less where tasks would be few.
struct task_shape {
  Index rows = tuning::mc, cols = tuning::nc;
};
[[nodiscard]] constexpr task_shape task_tiles(Index rows, Index cols) {
  task_shape shape;
  auto const few = [&] {
    return ((rows + shape.rows - 1) / shape.rows) * ((cols + shape.cols - 1) / shape.cols) < tuning::enough_tasks;
  };
  if (few()) shape.cols = tuning::medium_nc;
  if (few()) shape.rows = tuning::medium_mc;
  if (few()) shape.cols = tuning::small_nc;
  if (few()) shape.rows = tuning::small_mc;
  return shape;
}

/// c = a b or c += a b for matrices (count 1) with any strides; a and b must not overlap c. Without columns of a, c
/// becomes 0 or keeps its numbers.
template <ProductPrecision Products, class C, class A, class B>
void gemm(Products, executor_ref executor, view<C> c, view<A> a, view<B> b, bool accumulate) {
  task_shape const shape = task_tiles(c.rows, c.cols);
  Index const across = (c.cols + shape.cols - 1) / shape.cols;
  Index const tasks = (c.rows + shape.rows - 1) / shape.rows * across;
  auto const task = [&](Index t) {
    Index const i = t / across * shape.rows, j = t % across * shape.cols;
    Index const m = (std::min)(shape.rows, c.rows - i), n = (std::min)(shape.cols, c.cols - j);
    if (a.cols > tuning::product_depth)
      return detail::multiply_deep<Products>(block(c, i, j, m, n), a.middle_rows(i, m), b.middle_cols(j, n),
                                             accumulate);
    multiply<Products>(block(c, i, j, m, n), a.middle_rows(i, m), b.middle_cols(j, n), accumulate);
  };
  if (tuning::parallel_threshold > c.rows * c.cols * a.cols) {
    serial::parallel_for(tasks, task);
  } else {
    executor.parallel_for(tasks, task);
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
