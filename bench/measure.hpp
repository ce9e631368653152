#pragma once
// SPDX-License-Identifier: MIT
// The timing of a row on a machine whose speed changes while others use it.
//
// Times are compared only with yardsticks: rates measured in the same process, with as many threads. One is the rate of
// multiply-adds on registers, the peak; a row may add another, such as dense attention. A repetition is a sequence
//
//   yardstick  runs of the row  yardstick  runs of the row  ...  yardstick
//
// of up to four pieces. The yardstick of a piece is the mean of those before and after it: slow drift of the clock
// cancels in the quotient, and so does a constant load by others. The peak is a mean over half the time of a piece, not
// the best of short moments, since varying load slows down the row, too. With several threads it consists of many short
// tasks of the pool, as kernels do: a thread that loses its CPU delays both alike.
//
// A quotient does not correct a change within a piece. If the yardsticks around the pieces differ by more than
// `steady_difference`, the repetition is repeated, up to `attempts` times, and the steadiest attempt is kept. If that
// is still above the limit, the repetition's counter `steady` is 0, and the table leaves it out of its medians as long
// as enough others remain.
//
// One thread is timed by its CPU time, several by the wall clock.

#include <functional>
#include <vector>

#include "headmix/core/view.hpp"

namespace bench {

using headmix::Index;

constexpr double steady_difference = 0.03;
constexpr int attempts = 3;

/// The current rate of work to compare a row with, measured for about this number of seconds.
using Yardstick = std::function<double(double seconds)>;

/// The current time in seconds by the clock for rows with this many threads.
[[nodiscard]] double seconds_of_clock(Index threads);

/// One repetition of a row.
struct Measured {
  double seconds = 0;         ///< seconds of one run
  std::vector<double> rates;  ///< rates of the yardsticks during the runs
  double difference = 0;      ///< relative difference of a yardstick before and after a piece, the mean over pieces
  [[nodiscard]] bool steady() const { return difference <= steady_difference; }
};

/// Times `count` runs; run(n) runs n times. `guess`: seconds of one run, roughly.
[[nodiscard]] Measured measure(Index threads, Index count, double guess, std::function<void(Index)> const& run,
                               std::vector<Yardstick> const& yardsticks);

}  // namespace bench
