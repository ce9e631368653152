// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

constexpr Index most_pieces = 4;

Measured measure_once(Index threads, Index count, double guess, std::function<void(Index)> const& run,
                      std::vector<Yardstick> const& yardsticks) {
  Index const pieces = std::min(count, most_pieces);
  double wanted = guess * static_cast<double>(count / pieces) / 2;
  std::vector<double> before(yardsticks.size()), after(before), sum(before), difference(before);
  auto const look = [&](std::size_t i) { return yardsticks[i](std::clamp(wanted, 0.004, 0.1)); };
  for (std::size_t i = 0; i < yardsticks.size(); ++i) before[i] = look(i);
  double total = 0;
  for (Index piece = 0; piece < pieces; ++piece) {
    Index const runs = count * (piece + 1) / pieces - count * piece / pieces;
    double const start = seconds_of_clock(threads);
    run(runs);
    double const seconds = seconds_of_clock(threads) - start;
    total += seconds;
    wanted = seconds / 2;
    for (std::size_t i = yardsticks.size(); i-- > 0;) after[i] = look(i);  // the last is closest on both sides
    for (std::size_t i = 0; i < yardsticks.size(); ++i) {
      double const mean = (before[i] + after[i]) / 2;
      sum[i] += seconds * mean;
      difference[i] += seconds * std::abs(after[i] - before[i]) / mean;
    }
    // The next piece has the same yardsticks before it, in reverse order, so the closest stays the closest.
    before = after;
  }
  Measured result;
  result.seconds = total / static_cast<double>(count);
  for (std::size_t i = 0; i < yardsticks.size(); ++i) {
    result.rates.push_back(sum[i] / total);
    result.difference = std::max(result.difference, difference[i] / total);
  }
  return result;
}

}  // namespace

double seconds_of_clock(Index threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Measured measure(Index threads, Index count, double guess, std::function<void(Index)> const& run,
                 std::vector<Yardstick> const& yardsticks) {
  Measured best = measure_once(threads, count, guess, run, yardsticks);
  for (int attempt = 1; attempt < attempts && !best.steady(); ++attempt) {
    Measured again = measure_once(threads, count, best.seconds, run, yardsticks);
    if (again.difference < best.difference) best = std::move(again);
  }
  return best;
}

}  // namespace bench
