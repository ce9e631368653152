#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows, 64 bytes at a time. Rows whose elements do not follow each other go to the
// reference.

#include <algorithm>
#include <cmath>
#include <limits>

#include "headmix/backend/cpu/rows/map_reduce.hpp"
#include "headmix/backend/reference.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// The largest number of a row, minus infinity without one; it may also be NaN where one is, and is where there are but
/// those and minus infinities.
template <class T>
T row_maximum(T const* a, Index n) {
  constexpr T none = -std::numeric_limits<T>::infinity();
  T const top = n == 0 ? none : detail::const_array_map<T>(a, n).maxCoeff();
  if (top != none) return top;
  T const* const odd = std::find_if(a, a + n, [](T x) { return std::isnan(x); });
  return odd == a + n ? none : *odd;
}

/// sum_j exp(a_j - top)
template <class T>
T shifted_sum(T const* a, Index n, T top) {
  using P = simd<T>;
  P const shift(top);
  P total(0.0);
  Index j = 0;
  for (; j + P::width <= n; j += P::width) total = total + exp(P::load(a + j) - shift);
  T sum = total.sum();
  for (; j < n; ++j) sum += std::exp(a[j] - top);
  return sum;
}

/// A long row in blocks: see block_terms.
template <class T>
T shifted_sum_of_blocks(T const* a, Index n, T top, Index block) {
  double blocks = 0;
  for (Index j = 0; j < n; j += block) blocks += static_cast<double>(shifted_sum(a + j, (std::min)(block, n - j), top));
  return static_cast<T>(blocks);
}

template <class T, class A>
void softmax(executor_ref executor, view<T> y, view<A const> a) {
  if constexpr (std::is_same_v<T, A> && std::is_same_v<T, accumulator_t<T>>) {
    if (a.col_stride == 1 && y.col_stride == 1) {
      for_each_range(executor, a.rows, 8 * a.cols, [&](Index first, Index last) {
        for (Index i = first; i < last; ++i) {
          T const top = row_maximum(a.row(i), a.cols);
          T* const out = y.row(i);
          if (top == -std::numeric_limits<T>::infinity()) {
            std::fill_n(out, a.cols, T(0));
            continue;
          }
          using P = simd<T>;
          P const shift(top);
          P total(0.0);
          Index j = 0;
          for (; j + P::width <= a.cols; j += P::width) {
            P const e = exp(P::load(a.row(i) + j) - shift);
            e.store(out + j);
            total = total + e;
          }
          T sum = total.sum();
          for (; j < a.cols; ++j) sum += out[j] = std::exp(a.row(i)[j] - top);
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
            T const top = row_maximum(a.row(i), a.cols);
            y(i, 0) = top == -std::numeric_limits<T>::infinity() ? top : top + std::log(sum(a.row(i), top));
          }
        });
      };
      if (a.cols <= block) {
        each_row([&](T const* row, T top) { return shifted_sum(row, a.cols, top); });
      } else {
        each_row([&](T const* row, T top) { return shifted_sum_of_blocks(row, a.cols, top, block); });
      }
      return;
    }
  }
  Reference<T>{}.log_sum_exp(y, a);
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
