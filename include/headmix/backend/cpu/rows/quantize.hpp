#pragma once
// SPDX-License-Identifier: MIT
// Rounding to 8-bit activations and to ternary weights (core/ternary.hpp), 16 numbers at a time. The order of sums
// depends on extents alone.

#include <algorithm>
#include <type_traits>

#include "headmix/backend/cpu/rows/map_reduce.hpp"
#include "headmix/core/ternary.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

namespace detail {

/// 16 elements of a row, in the accumulator type.
template <class T>
using sixteen = simd<accumulator_t<T>, 16>;

/// n elements at `row`, and zeros behind them.
template <class T>
sixteen<T> load_some(T const* row, Index stride, Index n) {
  if constexpr (std::is_same_v<T, accumulator_t<T>>) {
    if (stride == 1 && n == 16) return sixteen<T>::load(row);
  }
  accumulator_t<T> x[16] = {};
  for (Index i = 0; i < n; ++i) x[i] = static_cast<accumulator_t<T>>(row[i * stride]);
  return sixteen<T>::load(x);
}
/// f(x, j, n) for elements [j, j + n) of a row, 16 at a time; x has zeros behind the last element.
template <class T, class F>
void for_each_sixteen(T const* row, Index stride, Index cols, F f) {
  Index j = 0;
  for (; j + 16 <= cols; j += 16) f(load_some(row + j * stride, stride, Index{16}), j, Index{16});
  if (j < cols) f(load_some(row + j * stride, stride, cols - j), j, cols - j);
}
/// f(... f(f(0, x_0), x_1) ...) for a row of vectors x_i of 16 elements.
template <class T, class F>
sixteen<T> fold_sixteens(T const* row, Index stride, Index cols, F f) {
  sixteen<T> total(0);
  Index j = 0;
  for (; j + 16 <= cols; j += 16) total = f(total, load_some(row + j * stride, stride, Index{16}));
  return j < cols ? f(total, load_some(row + j * stride, stride, cols - j)) : total;
}

template <class T>
void store_some(T* to, Index stride, sixteen<T> const& x, Index n) {
  if constexpr (std::is_same_v<T, accumulator_t<T>>) {
    if (stride == 1 && n == 16) {
      x.store(to);
      return;
    }
  }
  accumulator_t<T> numbers[16];
  x.store(numbers);
  for (Index i = 0; i < n; ++i) to[i * stride] = static_cast<T>(numbers[i]);
}

/// The absmax_scale of a row.
template <class T>
accumulator_t<T> row_scale(T const* row, Index stride, Index cols) {
  auto const largest = [](auto const& a, auto const& x) { return larger_number(a, abs(x)); };
  return absmax_scale(fold_sixteens(row, stride, cols, largest).largest());
}
/// absmax_int8_of for vectors.
template <class A, class S>
A rounded_int8(A const& x, S scale) {
  return minimum(maximum(rint(x * A(scale)), A(-128)), A(127));
}

}  // namespace detail

/// y_i = clamp(round(a_i s), -128, 127) / s for every row i, s its absmax_scale.
template <class T>
void absmax_int8(executor_ref executor, view<T> y, view<T const> a) {
  for_each_range(executor, a.rows, 4 * a.cols, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      auto const s = detail::row_scale(a.row(i), a.col_stride, a.cols);
      T* const to = y.row(i);
      detail::for_each_sixteen(a.row(i), a.col_stride, a.cols, [&](auto const& x, Index j, Index n) {
        detail::store_some<T>(to + j * y.col_stride, y.col_stride, detail::rounded_int8(x, s) / detail::sixteen<T>(s),
                              n);
      });
    }
  });
}

/// y_e = clamp(round(a_e / s), -1, 1) s for every matrix e, s its absmean_scale. A row is summed in T, rows in double.
template <class T>
void absmean_ternary(executor_ref executor, view<T> y, view<T const> a) {
  using W = accumulator_t<T>;
  if (a.size() == 0) return;
  constexpr Index matrices = tuning::mean_matrices, most_parts = tuning::mean_parts;
  Index const size = a.rows * a.cols;
  Index const parts = std::clamp(size / tuning::task_elements, Index{1}, (std::min)(most_parts, a.rows));
  for (Index e = 0; e < a.count; e += matrices) {
    Index const n = (std::min)(matrices, a.count - e);
    double sums[matrices * most_parts];
    executor.parallel_for(n * parts, [&](Index t) {
      Index const part = t % parts, begin = (e + t / parts) * a.rows;
      double sum = 0;
      for (Index i = begin + a.rows * part / parts; i < begin + a.rows * (part + 1) / parts; ++i) {
        auto const total = detail::fold_sixteens(a.row(i), a.col_stride, a.cols,
                                                 [](auto const& so_far, auto const& x) { return so_far + abs(x); });
        sum += static_cast<double>(total.sum());
      }
      sums[t] = sum;
    });
    W scales[matrices];
    for (Index m = 0; m < n; ++m) {
      double sum = 0;
      for (Index part = 0; part < parts; ++part) sum += sums[m * parts + part];
      scales[m] = absmean_scale(static_cast<W>(sum / static_cast<double>(size)));
    }
    for_each_range(executor, n * a.rows, a.cols, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        W const s = scales[r / a.rows];
        T const* const from = a.row(e * a.rows + r);
        T* const to = y.row(e * a.rows + r);
        auto const rounded = [s](T x) { return static_cast<T>(ternary_of(static_cast<W>(x), s) * s); };
        if (a.col_stride == 1 && y.col_stride == 1) {
          for (Index j = 0; j < a.cols; ++j) to[j] = rounded(from[j]);
        } else {
          for (Index j = 0; j < a.cols; ++j) to[j * y.col_stride] = rounded(from[j * a.col_stride]);
        }
      }
    });
  }
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
