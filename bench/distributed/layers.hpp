#pragma once
// SPDX-License-Identifier: MIT
// The layers that are timed on several ranks.

#include <span>
#include <vector>

#include "headmix/distributed/mpi.hpp"
#include "model.hpp"

namespace bench {

/// Settings of a timing.
struct Timing {
  int repetitions = 7;
  double seconds = 0.02;  ///< of a repetition, at least
};
/// Seconds of one run on the slowest rank: the median of the repetitions, each between two barriers. All ranks call it.
template <class F>
[[nodiscard]] double time_of(headmix::Mpi& ranks, Timing const& timing, F run);

struct Layer {
  char const* name;   ///< on the command line
  char const* title;  ///< in tables
  /// The work of a rank in a pass, forward or forward and backward. `scalar`: bytes of a number.
  Work (*work)(Sizes const& s, Index ranks, bool backward, double scalar);
  /// Seconds of a pass, and its operations on this rank.
  double (*time)(Sizes const& s, headmix::Mpi& ranks, bool backward, Timing const& timing,
                 std::vector<Operation>& operations);
};
[[nodiscard]] std::span<Layer const> layers();

/// FLOP/s of a float product on this thread: the ceiling of layers.
[[nodiscard]] double time_product(headmix::Mpi& ranks, Timing const& timing);

// ---- implementation

namespace detail {
/// The largest of the ranks' numbers, for each repetition.
[[nodiscard]] std::vector<double> slowest(headmix::Mpi& ranks, std::vector<double> const& seconds);
[[nodiscard]] double now();
}  // namespace detail

template <class F>
double time_of(headmix::Mpi& ranks, Timing const& timing, F run) {
  auto const once = [&](int runs) {
    ranks.barrier();
    double const start = detail::now();
    for (int i = 0; i < runs; ++i) run();
    return (detail::now() - start) / runs;
  };
  run();  // first touches of memory
  double const guess = detail::slowest(ranks, {once(1)})[0];
  int const runs = static_cast<int>(std::clamp(timing.seconds / guess, 1.0, 1000.0));
  std::vector<double> seconds;
  for (int i = 0; i < timing.repetitions; ++i) seconds.push_back(once(runs));
  seconds = detail::slowest(ranks, seconds);
  auto const middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace bench
