#pragma once
// SPDX-License-Identifier: MIT
// Rounding to 8-bit activations, one scale per row, and to ternary weights, one scale per matrix. A team of threads per
// row.

#include <cmath>
#include <cstddef>

#include "headmix/backend/cuda/kernel/rows/reduce.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/error.hpp"
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

/// y_i = clamp(round(a_i s), -128, 127) / s, s = 127 / max(max_j |a_ij|, 1e-5)
template <class Queue, class T>
void absmax_int8(Queue& queue, view<T> y, view<T const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(absmax_int8_kernel<T>{y, a, members}, members.blocks(a.rows));
}

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

/// y_e = clamp(round(a_e / s), -1, 1) s for every matrix, s = max(mean |a_e|, 1e-5). Parts of each matrix are summed,
/// then their sums, in order.
template <class Queue, class T>
void absmean_ternary(Queue& queue, view<T> y, view<T const> a) {
  using W = accumulator_t<T>;
  constexpr Index enough_parts = tuning::absmean_parts;  // of all matrices
  if (y.size() == 0) return;
  Index parts = enough_parts / a.count;
  if (parts > a.rows) parts = a.rows;
  Index const rows = blocks_for(a.rows, parts > 0 ? parts : 1);
  parts = blocks_for(a.rows, rows);
  auto const workspace = queue.workspace();
  if (std::size_t const bytes = sizeof(W) * static_cast<std::size_t>(a.count * (parts + 1)); workspace.size() < bytes) {
    fail("the Cuda backend's workspace has ", workspace.size(), " bytes; ternary weights of ", a.count,
         " matrices take ", bytes);
  }
  view<W> const sums(reinterpret_cast<W*>(workspace.data()), 1, a.count), partial(sums.data + a.count, a.count, parts);
  row_sum<W>(queue, view<W>(partial.data, a.count * parts, 1),
             lazy<tree_absolute<T>>{{a, parts, rows}, a.count * parts, a.cols}, false);
  row_sum<W>(queue, sums.transposed(), lazy<tree_leaf<W, false, false>>{{partial}, a.count, parts}, false);
  team const members = team::for_row_of(a.cols);
  queue.launch(absmean_ternary_kernel<T>{y, a, sums.data, members}, members.blocks(a.count * a.rows));
}

}  // namespace headmix::cuda_kernels
