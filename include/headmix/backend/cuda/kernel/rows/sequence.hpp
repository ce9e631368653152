#pragma once
// SPDX-License-Identifier: MIT
// Sliding sums along a sequence, and sequence numbers.

#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// The sequence of row i: the last one that begins at or before it.
[[nodiscard]] HEADMIX_DEVICE inline Index sequence_of(segments const& s, Index i) {
  if (s.offsets == nullptr) return i / (s.rows / s.count);
  Index low = 0, high = s.count - 1;
  while (low < high) {
    Index const middle = (low + high + 1) / 2;
    if (s.begin(middle) <= i) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

struct sequence_numbers_kernel {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<Int> y;
  segments s;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i < y.rows) device.store(&y(i, 0), static_cast<Int>(sequence_of(s, i)));
  }
};

/// A thread has a column of `rows` rows. It restarts its sum, so rounding errors do not accumulate along a sequence.
template <class W, class T>
struct window_mean_kernel {
  static constexpr int threads = tuning::window_mean.threads, rows = tuning::window_mean.rows;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  view<T const> a;
  segments s;
  Index window;
  bool transposed;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const column_tiles = blocks_for(y.cols, threads);
    Index const j = device.block() % column_tiles * threads + device.thread(),
                first = device.block() / column_tiles * rows;
    if (j >= y.cols) return;
    Index const last = first + rows < y.rows ? first + rows : y.rows;
    Index const step = transposed ? -1 : 1, stop = transposed ? first - 1 : last;
    Index begin = 0, end = 0;  // of the sequence
    W sum = 0;
    auto const value = [&](Index i) { return static_cast<W>(device.load(&a(i, j))); };
    auto const weight = [&](Index i) { return 1 / static_cast<W>(i - begin < window ? i - begin + 1 : window); };
    for (Index i = transposed ? last - 1 : first; i != stop; i += step) {
      Index const leaving = i - step * window;
      bool restart = false;
      if (i < begin || i >= end) {
        Index const b = sequence_of(s, i);
        begin = s.begin(b);
        end = s.end(b);
        restart = true;
      } else if (leaving >= begin && leaving < end) {
        sum -= transposed ? weight(leaving) * value(leaving) : value(leaving);
        restart = sum - sum != 0;  // a non-finite number cannot be subtracted again
      }
      if (restart) {
        // The rows of the window other than i.
        if (transposed) {
          Index const window_end = end - i < window ? end : i + window;
          sum = sum_in_blocks<W, W>(i + 1, window_end, 1, [&](Index k) { return weight(k) * value(k); });
        } else {
          sum = sum_in_blocks<W, W>(i - begin < window ? begin : i - window + 1, i, 1, value);
        }
      }
      sum += transposed ? weight(i) * value(i) : value(i);
      device.store(&y(i, j), static_cast<T>(transposed ? sum : weight(i) * sum));
    }
  }
};

}  // namespace headmix::cuda_kernels
