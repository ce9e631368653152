#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows, 64 bytes at a time. Rows with other strides are left to the reference.

#include <algorithm>
#include <cmath>
#include <limits>

#include "headmix/backend/cpu/rows/map_reduce.hpp"
#include "headmix/backend/reference.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// The maximum of a row, minus infinity for an empty row. A row with a NaN may give NaN, and does so if its other
/// numbers are NaN or minus infinity.
template <class T>
T row_maximum(T const* a, Index n) {
  constexpr T none = -std::numeric_limits<T>::infinity();
  T const row_max = n == 0 ? none : detail::const_array_map<T>(a, n).maxCoeff();
  if (row_max != none) return row_max;
  T const* const odd = std::find_if(a, a + n, [](T x) { return std::isnan(x); });
  return odd == a + n ? none : *odd;
}

/// sum_j exp(a_j - row_max)
template <class T>
T shifted_sum(T const* a, Index n, T row_max) {
  using P = simd<T>;
  P const shift(row_max);
  P total(0.0);
  Index j = 0;
  for (; j + P::width <= n; j += P::width) total = total + exp(P::load(a + j) - shift);
  T sum = total.sum();
  for (; j < n; ++j) sum += std::exp(a[j] - row_max);
  return sum;
}

/// shifted_sum of a long row, in blocks: see block_terms.
template <class T>
T shifted_sum_of_blocks(T const* a, Index n, T row_max, Index block) {
  double blocks = 0;
  for (Index j = 0; j < n; j += block)
    blocks += static_cast<double>(shifted_sum(a + j, (std::min)(block, n - j), row_max));
  return static_cast<T>(blocks);
}

template <class T, class A>
void softmax(executor_ref executor, view<T> y, view<A const> a) {
  if constexpr (std::is_same_v<T, A> && std::is_same_v<T, accumulator_t<T>>) {
    if (a.col_stride == 1 && y.col_stride == 1) {
      for_each_range(executor, a.rows, 8 * a.cols, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) {
          T const row_max = row_maximum(a.row(i), a.cols);
          T* const out = y.row(i);
          if (row_max == -std::numeric_limits<T>::infinity()) {
            std::fill_n(out, a.cols, T(0));
            continue;
          }
          using P = simd<T>;
          P const shift(row_max);
          P total(0.0);
          Index j = 0;
          for (; j + P::width <= a.cols; j += P::width) {
            P const e = exp(P::load(a.row(i) + j) - shift);
            e.store(out + j);
            total = total + e;
          }
          T sum = total.sum();
          for (; j < a.cols; ++j) sum += out[j] = std::exp(a.row(i)[j] - row_max);
          T const inverse = 1 / sum;
          for (j = 0; j < a.cols; ++j) out[j] *= inverse;
        }
      });
      return;
    }
  }
  Reference<T>{}.softmax(y, a);
}

template <class T, class A>
void log_sum_exp(executor_ref executor, view<T> y, view<A const> a) {
  if constexpr (std::is_same_v<T, A> && std::is_same_v<T, accumulator_t<T>>) {
    if (a.col_stride == 1) {
      constexpr Index block = block_terms * simd<T>::width;
      auto const each_row = [&](auto sum) {
        for_each_range(executor, a.rows, 8 * a.cols, [&](Index first, Index last) {
          for (Index i = first; i < last; ++i) {
            T const row_max = row_maximum(a.row(i), a.cols);
            y(i, 0) =
                row_max == -std::numeric_limits<T>::infinity() ? row_max : row_max + std::log(sum(a.row(i), row_max));
          }
        });
      };
      if (a.cols <= block) {
        each_row([&](T const* row, T row_max) { return shifted_sum(row, a.cols, row_max); });
      } else {
        each_row([&](T const* row, T row_max) { return shifted_sum_of_blocks(row, a.cols, row_max, block); });
      }
      return;
    }
  }
  Reference<T>{}.log_sum_exp(y, a);
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
