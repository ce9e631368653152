#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp of rows, a team of threads for each.

#include <cmath>

#include "headmix/backend/cuda/kernel/collective.hpp"
#include "headmix/core/view.hpp"

namespace headmix::gpu {

/// exp(x - top), 0 for x = minus infinity whatever `top` is.
template <class W>
[[nodiscard]] HEADMIX_DEVICE W exp_below(W x, W top) {
  return x == minus_infinity<W> ? W(0) : std::exp(x - top);
}

/// The maximum of a row and the sum of what is above it in exponents.
template <class W>
struct row_scale {
  W top, sum;
};
/// The same for all members of a team; `real` is false for a team without a row.
template <class W, class A, class Device>
[[nodiscard]] HEADMIX_DEVICE row_scale<W> scale_of_row(Device& device, team members, view<A const> a, Index i,
                                                       bool real) {
  Index const first = members.member(device), end = real ? a.cols : 0;
  W top = minus_infinity<W>, sum = 0;
  for (Index j = first; j < end; j += members.size()) top = larger_number{}(top, static_cast<W>(device.load(&a(i, j))));
  top = combined(device, members, top, larger_number{});
  for (Index j = first; j < end; j += members.size()) sum += exp_below(static_cast<W>(device.load(&a(i, j))), top);
  return {top, combined(device, members, sum, add_numbers{})};
}

/// Row i of y = softmax(a), if it is `real`.
template <class W, class T, class A, class Device>
HEADMIX_DEVICE void softmax_of_row(Device& device, team members, view<T> y, view<A const> a, Index i, bool real) {
  if (a.cols <= members.size()) {  // the same for an element of each member, which is read once
    Index const j = members.member(device);
    bool const mine = real && j < a.cols;
    W const x = mine ? static_cast<W>(device.load(&a(i, j))) : minus_infinity<W>;
    W const top = combined(device, members, x, larger_number{}), part = exp_below(x, top);
    W const sum = combined(device, members, part, add_numbers{});
    if (mine) device.store(&y(i, j), static_cast<T>(top == minus_infinity<W> ? W(0) : part / sum));
    return;
  }
  row_scale<W> const scale = scale_of_row<W>(device, members, a, i, real);
  if (!real) return;
  for (Index j = members.member(device); j < a.cols; j += members.size()) {
    W const x = static_cast<W>(device.load(&a(i, j)));
    W const value = scale.top == minus_infinity<W> ? W(0) : exp_below(x, scale.top) / scale.sum;
    device.store(&y(i, j), static_cast<T>(value));
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
