#pragma once
// SPDX-License-Identifier: MIT
// How a row is timed on a machine whose speed changes while others use it.
//
// Times are compared only with what was measured beside them, in the same process, with as many threads: the
// yardsticks. One is the rate of multiply-adds on registers, the peak; a row may bring another, such as dense
// attention. A repetition is a sequence
//
//   yardstick  runs of the row  yardstick  runs of the row  ...  yardstick
//
// of up to four pieces. Every piece counts by the mean of the yardstick before and the one after it: a clock that
// drifts drops out of the quotient, and so does a neighbour that stays. The peak is a mean over half the time of a
// piece, not the best of some short moments, since the row too is slowed down by what comes and goes. With several
// threads it is cut into many short tasks that the pool hands out, as kernels are: a thread whose CPU is taken away
// holds up either of them alike.
//
// What a quotient cannot correct is a change within a piece. Where the yardsticks around the pieces differ by more than
// `steady_difference`, the repetition is made again, up to `attempts` times, and the steadiest attempt is kept. If that
// one still is above the limit, the repetition's counter `steady` is 0, and the table leaves it out of its medians as
// long as enough others remain.
//
// One thread is timed by its CPU time, several by the wall clock.

#include <functional>
#include <vector>

#include "headmix/core/view.hpp"

namespace bench {

using headmix::Index;

constexpr double steady_difference = 0.03;
constexpr int attempts = 3;

/// Something whose speed a row is compared with: its rate now, measured for about so many seconds.
using Yardstick = std::function<double(double seconds)>;

/// Seconds by the clock of rows with this many threads.
[[nodiscard]] double seconds_of_clock(Index threads);

/// One repetition of a row.
struct Measured {
  double seconds = 0;         ///< of one run
  std::vector<double> rates;  ///< of each yardstick, beside the runs
  double difference = 0;      ///< of a yardstick before and after a piece, relative, the mean over the pieces
  [[nodiscard]] bool steady() const { return difference <= steady_difference; }
};

/// Times `count` runs; run(n) runs n times. `guess`: seconds of one run, roughly.
[[nodiscard]] Measured measure(Index threads, Index count, double guess, std::function<void(Index)> const& run,
                               std::vector<Yardstick> const& yardsticks);

}  // namespace bench
