#pragma once
// SPDX-License-Identifier: MIT
// Rounding to 8-bit activations, one scale per row, and to ternary weights, one scale per matrix. A team of threads per
// row.

#include <cmath>

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/ternary.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// y_j = f(a_j) for all j < n, by a team.
template <class W, class Device, class T, class F>
HEADMIX_DEVICE void map_row(Device& device, team members, T* y, Index y_stride, T const* a, Index a_stride, Index n,
                            F const& f) {
  constexpr int at_once = tuning::quantize_elements;  // loads before the first store, as in map_kernel
  Index const step = members.size();
  for (Index first = members.member(device); first < n; first += at_once * step) {
    W value[at_once] = {};
    for (int k = 0; k < at_once; ++k) {
      Index const j = first + k * step;
      if (j < n) value[k] = f(static_cast<W>(device.load(a + j * a_stride)));
    }
    for (int k = 0; k < at_once; ++k) {
      Index const j = first + k * step;
      if (j < n) device.store(y + j * y_stride, static_cast<T>(value[k]));
    }
  }
}

template <class T>
struct absmax_int8_kernel {
  using W = accumulator_t<T>;
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = team_bytes<W>;

  view<T> y;
  view<T const> a;
  team members;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device), end = i < a.rows ? a.cols : 0;
    auto const larger = [](W u, W v) { return v > u ? v : u; };  // ignores NaN
    W largest = 0;
    for (Index j = members.member(device); j < end; j += members.size()) {
      largest = larger(largest, std::abs(static_cast<W>(device.load(&a(i, j)))));
    }
    W const s = absmax_scale(team_reduce(device, members, largest, larger));
    if (i >= a.rows) return;
    map_row<W>(device, members, y.row(i), y.col_stride, a.row(i), a.col_stride, a.cols,
               [s](W x) { return absmax_int8_of(x, s) / s; });
  }
};

/// Element (e parts + p, j) is the sum of the absolute values in column j of part p of matrix e.
template <class T>
struct tree_absolute {
  view<T const> a;
  Index parts, rows;  ///< of a matrix, of a part

  struct part {
    T const* data;
    Index rows, row_stride, col_stride;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      P sum(0);
      for (Index i = 0; i < rows; ++i) sum += std::abs(static_cast<P>(data[i * row_stride + j * col_stride]));
      return sum;
    }
  };
  HEADMIX_HD part row(Index i) const {
    Index const e = i / parts, first = (i - e * parts) * rows, left = a.rows - first;
    return {&a[e](first, 0), left < rows ? left : rows, a.row_stride, a.col_stride};
  }
};

template <class T>
struct absmean_ternary_kernel {
  using W = accumulator_t<T>;
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  view<T const> a;
  W const* sums;  ///< of the absolute values of each matrix
  team members;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const row = members.row(device), e = row / a.rows, i = row - e * a.rows;
    if (e >= a.count) return;
    W const s = absmean_scale(device.load(sums + e) / static_cast<W>(a.rows * a.cols));
    map_row<W>(device, members, &y[e](i, 0), y.col_stride, &a[e](i, 0), a.col_stride, a.cols,
               [s](W x) { return ternary_of(x, s) * s; });
  }
};

}  // namespace headmix::cuda_kernels
