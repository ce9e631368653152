#pragma once
// SPDX-License-Identifier: MIT
// Sliding sums along a sequence. Every task starts a new sum, so rounding errors do not accumulate along a sequence.

#include <algorithm>

#include "headmix/backend/cpu/parallel.hpp"
#include "headmix/backend/cpu/tuning.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// The sequence of row i, which is below s.rows.
[[nodiscard]] inline Index sequence_of(segments s, Index i) {
  if (!s.offsets) return i / (s.rows / s.count);
  return std::upper_bound(s.offsets, s.offsets + s.count, static_cast<Int>(i)) - s.offsets - 1;
}

namespace detail {

/// Rows [first, last) and columns [col, col + cols) of window_mean.
template <class T>
void window_mean_block(view<T> y, view<T const> a, segments s, Index window, bool transposed, Index first, Index last,
                       Index col, Index cols) {
  double sum[tuning::window_cols];
  auto const add = [&](Index i, double factor) {
    for (Index j = 0; j < cols; ++j) sum[j] += factor * static_cast<double>(a(i, col + j));
  };
  auto const put = [&](Index i, double factor) {
    for (Index j = 0; j < cols; ++j) y(i, col + j) = static_cast<T>(factor * sum[j]);
  };
  Index const step = transposed ? -1 : 1, stop = transposed ? first - 1 : last;
  Index begin = transposed ? last - 1 : first;  // the first row of the running sum
  bool anew = false;                            // whether each row sums its window anew
  for (Index i = begin, b = -1; i != stop; i += step) {
    auto const share = [&](Index row) { return 1 / static_cast<double>((std::min)(row - s.begin(b) + 1, window)); };
    // Row i enters the window, row `behind` leaves it.
    Index const behind = i - step * window;
    bool const starts = b < 0 || i < s.begin(b) || i >= s.end(b);
    if (starts) {
      b = sequence_of(s, i);
      begin = i;
      anew = false;
    }
    if (starts || anew) {
      std::fill_n(sum, cols, 0.0);
      // The rows of the window besides row i.
      if (transposed) {
        for (Index k = (std::min)(s.end(b), window > s.end(b) - i ? s.end(b) : i + window) - 1; k > i; --k)
          add(k, share(k));
      } else {
        for (Index k = (std::max)(s.begin(b), i - window + 1); k < i; ++k) add(k, 1);
      }
    } else if (behind >= s.begin(b) && behind < s.end(b)) {
      add(behind, transposed ? -share(behind) : -1);
    }
    add(i, transposed ? share(i) : 1);
    put(i, transposed ? 1 : share(i));
    // A subtraction does not remove a number that is not finite: the rows are summed anew.
    bool const ends = i + step == stop || i + step < s.begin(b) || i + step >= s.end(b);
    if (ends && !anew && !all_finite(sum, cols)) {
      anew = true;
      i = begin - step;
    }
  }
}

}  // namespace detail

/// y_t = the mean of a_s over the positions t - window < s <= t of its sequence; transposed, y_s = the sum over those t
/// of a_t divided by their number of positions. Sums are of double.
template <class T>
void window_mean(executor_ref executor, view<T> y, view<T const> a, segments s, Index window, bool transposed) {
  constexpr Index window_rows = tuning::window_rows, window_cols = tuning::window_cols;
  Index const across = (y.cols + window_cols - 1) / window_cols, down = (y.rows + window_rows - 1) / window_rows;
  executor.parallel_for(across * down, [&](Index task) {
    Index const first = task / across * window_rows, col = task % across * window_cols;
    detail::window_mean_block<T>(y, a, s, window, transposed, first, (std::min)(y.rows, first + window_rows), col,
                                 (std::min)(window_cols, y.cols - col));
  });
}

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
