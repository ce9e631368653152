#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows, one team of threads per row.

#include <cmath>

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// exp(x - row_max); 0 for x = minus infinity and any row_max.
template <class W>
[[nodiscard]] HEADMIX_DEVICE W exp_minus_max(W x, W row_max) {
  return x == minus_infinity<W> ? W(0) : std::exp(x - row_max);
}

/// The maximum of a row, the sum of exponentials relative to it, and the member's first term of that sum.
template <class W>
struct softmax_statistics {
  W row_max, sum, first;
};
/// The row statistics, equal for all members of a team except `first`; `valid` is false for a team without a row. A
/// member reads its first element once, and short rows have no others.
template <class W, class A, class Device>
[[nodiscard]] HEADMIX_DEVICE softmax_statistics<W> softmax_statistics_of_row(Device& device, team members,
                                                                             view<A const> a, Index i, bool valid) {
  Index const first = members.member(device), next = first + members.size(), end = valid ? a.cols : 0;
  W const first_score = first < end ? static_cast<W>(device.load(&a(i, first))) : minus_infinity<W>;
  W row_max = first_score;
  for (Index j = next; j < end; j += members.size())
    row_max = maximum_or_nan{}(row_max, static_cast<W>(device.load(&a(i, j))));
  row_max = team_reduce(device, members, row_max, maximum_or_nan{});
  W const part = exp_minus_max(first_score, row_max);
  W sum = part;
  for (Index j = next; j < end; j += members.size())
    sum += exp_minus_max(static_cast<W>(device.load(&a(i, j))), row_max);
  return {row_max, team_reduce(device, members, sum, plus{}), part};
}

/// Row i of y = softmax(a), if it is `valid`.
template <class W, class T, class A, class Device>
HEADMIX_DEVICE void softmax_of_row(Device& device, team members, view<T> y, view<A const> a, Index i, bool valid) {
  softmax_statistics<W> const statistics = softmax_statistics_of_row<W>(device, members, a, i, valid);
  if (!valid) return;
  Index const first = members.member(device);
  for (Index j = first; j < a.cols; j += members.size()) {
    W const part =
        j == first ? statistics.first : exp_minus_max(static_cast<W>(device.load(&a(i, j))), statistics.row_max);
    device.store(&y(i, j), static_cast<T>(statistics.row_max == minus_infinity<W> ? W(0) : part / statistics.sum));
  }
}

template <class W, class T, class A>
struct softmax_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = team_bytes<W>;

  view<T> y;
  view<A const> a;
  team members;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    softmax_of_row<W>(device, members, y, a, i, i < a.rows);
  }
};

template <class W, class T, class A>
struct log_sum_exp_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = team_bytes<W>;

  view<T> y;
  view<A const> a;
  team members;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    softmax_statistics<W> const statistics = softmax_statistics_of_row<W>(device, members, a, i, i < a.rows);
    if (i < a.rows && members.member(device) == 0) {
      device.store(&y(i, 0), static_cast<T>(statistics.row_max + std::log(statistics.sum)));
    }
  }
};

}  // namespace headmix::cuda_kernels
