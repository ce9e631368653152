#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows, one team of threads per row.

#include <cmath>

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/core/view.hpp"

namespace headmix::gpu {

/// exp(x - top), 0 for x = minus infinity whatever `top` is.
template <class W>
[[nodiscard]] HEADMIX_DEVICE W exp_below(W x, W top) {
  return x == minus_infinity<W> ? W(0) : std::exp(x - top);
}

/// The maximum of a row, the sum of exponentials relative to it, and the member's first term of that sum.
template <class W>
struct row_scale {
  W top, sum, first;
};
/// The row statistics, equal for all members of a team except `first`; `real` is false for a team without a row. A
/// member reads its first element once, and short rows have no others.
template <class W, class A, class Device>
[[nodiscard]] HEADMIX_DEVICE row_scale<W> scale_of_row(Device& device, team members, view<A const> a, Index i,
                                                       bool real) {
  Index const first = members.member(device), next = first + members.size(), end = real ? a.cols : 0;
  W const own = first < end ? static_cast<W>(device.load(&a(i, first))) : minus_infinity<W>;
  W top = own;
  for (Index j = next; j < end; j += members.size()) top = larger_number{}(top, static_cast<W>(device.load(&a(i, j))));
  top = combined(device, members, top, larger_number{});
  W const part = exp_below(own, top);
  W sum = part;
  for (Index j = next; j < end; j += members.size()) sum += exp_below(static_cast<W>(device.load(&a(i, j))), top);
  return {top, combined(device, members, sum, add_numbers{}), part};
}

/// Row i of y = softmax(a), if it is `real`.
template <class W, class T, class A, class Device>
HEADMIX_DEVICE void softmax_of_row(Device& device, team members, view<T> y, view<A const> a, Index i, bool real) {
  row_scale<W> const scale = scale_of_row<W>(device, members, a, i, real);
  if (!real) return;
  Index const first = members.member(device);
  for (Index j = first; j < a.cols; j += members.size()) {
    W const part = j == first ? scale.first : exp_below(static_cast<W>(device.load(&a(i, j))), scale.top);
    device.store(&y(i, j), static_cast<T>(scale.top == minus_infinity<W> ? W(0) : part / scale.sum));
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
    row_scale<W> const scale = scale_of_row<W>(device, members, a, i, i < a.rows);
    if (i < a.rows && members.member(device) == 0) {
      device.store(&y(i, 0), static_cast<T>(scale.top + std::log(scale.sum)));
    }
  }
};

template <class W, class Queue, class T, class A>
void softmax(Queue& queue, view<T> y, view<A const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(softmax_kernel<W, T, A>{y, a, members}, members.blocks(a.rows));
}
template <class W, class Queue, class T, class A>
void log_sum_exp(Queue& queue, view<T> y, view<A const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(log_sum_exp_kernel<W, T, A>{y, a, members}, members.blocks(a.rows));
}

}  // namespace headmix::gpu
