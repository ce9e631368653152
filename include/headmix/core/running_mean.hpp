#pragma once
// SPDX-License-Identifier: MIT
// The mean of the latest rows of a stream, for a decoder that meets its positions one by one.

#include <cmath>
#include <vector>

#include "headmix/core/error.hpp"

namespace headmix {

/// The mean of the latest `window` rows of `width` numbers: what window_mean gives for a whole sequence. A ring of rows
/// and a running sum of double, which is made anew each time that the ring is full, so that it does not drift.
class RunningMean {
 public:
  /// The latest `window` rows of this width.
  RunningMean(Index window, Index width) : window_(window), width_(width), sum_(static_cast<std::size_t>(width)) {
    if (1 > window) fail("RunningMean: expected a window of at least 1 row, found ", window);
  }

  /// Takes the next row and writes the mean to `mean`, which may be the row.
  template <class T>
  void push(T const* row, T* mean) {
    auto const width = static_cast<std::size_t>(width_);
    if (rows_ < window_) {
      ring_.insert(ring_.end(), row, row + width_);
      ++rows_;
      for (std::size_t j = 0; j < width; ++j) sum_[j] += static_cast<double>(row[j]);
    } else {
      double* const oldest = ring_.data() + next_ * width_;
      bool finite = true;  // what is not does not go by subtracting it
      for (std::size_t j = 0; j < width; ++j) {
        finite = finite && std::isfinite(oldest[j]);
        sum_[j] += static_cast<double>(row[j]) - oldest[j];
        oldest[j] = static_cast<double>(row[j]);
      }
      next_ = next_ + 1 == window_ ? 0 : next_ + 1;
      if (next_ == 0 || !finite) add_anew();
    }
    for (std::size_t j = 0; j < width; ++j) mean[j] = static_cast<T>(sum_[j] / static_cast<double>(rows_));
  }
  /// Begins another stream.
  void clear() {
    rows_ = next_ = 0;
    ring_.clear();
    sum_.assign(sum_.size(), 0.0);
  }

 private:
  void add_anew() {
    sum_.assign(sum_.size(), 0.0);
    for (std::size_t i = 0; i < ring_.size(); ++i) sum_[i % sum_.size()] += ring_[i];
  }

  Index window_, width_, rows_ = 0, next_ = 0;
  std::vector<double> sum_, ring_;
};

}  // namespace headmix
