// SPDX-License-Identifier: MIT
// Timing of a configuration, and its tables.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "../measure.hpp"
#include "configuration.hpp"
#include "headmix/io/file.hpp"

namespace bench {
namespace {

constexpr int repetitions = 3;

std::unique_ptr<TimedLayer> make(Configuration const& c, Index length, bool dense) {
  return c.causal ? make_causal(c, length, dense) : make_full(c, length, dense);
}

/// Times both layers in turn, with dense attention as the yardstick; returns the repetition with the median ratio.
Comparison compare(Configuration const& c, Index length) {
  Comparison result{length, c.active, {}, {}, {}, 0, 0, true};
  auto const make_and_touch = [&](bool dense, double& mebibytes) {
    auto made = make(c, length, dense);
    made->pass(true);
    mebibytes = made->bytes() / (1 << 20);
    return made;
  };
  auto const dense = make_and_touch(true, result.dense_mib), layer = make_and_touch(false, result.layer_mib);
  for (int direction = 0; direction < 2; ++direction) {
    auto const seconds_of = [&](TimedLayer& timed, Index runs) {
      double const start = seconds_of_clock(c.threads);
      for (Index i = 0; i < runs; ++i) timed.pass(direction == 1);
      return seconds_of_clock(c.threads) - start;
    };
    double const once = seconds_of(*dense, 1), guess = seconds_of(*layer, 1);
    auto const runs = (std::max)(Index{2}, static_cast<Index>(0.1 / guess));
    Yardstick const yardstick = [&](double seconds) {
      auto const n = (std::max)(Index{1}, static_cast<Index>(std::lround(seconds / once)));
      return static_cast<double>(n) / seconds_of(*dense, n);
    };
    std::vector<Measured> all;
    for (int i = 0; i < repetitions; ++i) {
      all.push_back(measure(c.threads, runs, guess, [&](Index n) { seconds_of(*layer, n); }, {yardstick}));
    }
    auto const ratio = [](Measured const& m) { return m.seconds * m.rates[0]; };
    std::sort(all.begin(), all.end(), [&](auto const& a, auto const& b) { return ratio(a) < ratio(b); });
    Measured const& median = all[repetitions / 2];
    result.layer_ms[direction] = 1e3 * median.seconds;
    result.dense_ms[direction] = 1e3 / median.rates[0];
    result.relative[direction] = ratio(median);
    result.steady = result.steady && median.steady();
  }
  return result;
}

void print_head(char const* what) {
  std::printf("\n%-16s%30s%32s%22s\n", what, "forward", "forward and backward", "memory");
  std::printf("%8s%8s%10s%10s%10s%12s%10s%10s%12s%10s\n", "length", "active", "dense ms", "layer ms", "relative",
              "dense ms", "layer ms", "relative", "dense MiB", "layer MiB");
}
void print(Comparison const& r) {
  std::printf("%8td%8td%10.2f%10.2f%10.2f%12.2f%10.2f%10.2f%12.1f%10.1f%s\n", r.length, r.active, r.dense_ms[0],
              r.layer_ms[0], r.relative[0], r.dense_ms[1], r.layer_ms[1], r.relative[1], r.dense_mib, r.layer_mib,
              r.steady ? "" : "  unsteady");
  std::fflush(stdout);
}

}  // namespace

void time_vs_dense(Configuration const& c) {
  if (!c.svg.empty()) headmix::OutputFile const writable(c.svg);  // fail before minutes of timing
  std::printf(
      "%s, model width %td, mask %s, float, %td thread%s, one sequence; beside dense attention with %td heads\n",
      c.title().c_str(), c.model_dim, c.causal ? "causal" : "full", c.threads, c.threads == 1 ? "" : "s", c.heads);
  std::vector<Comparison> by_length, by_active;
  print_head("by length");
  for (Index const length : c.lengths) print(by_length.emplace_back(compare(c, length)));
  print_head("by active heads");
  for (Index const active : active_heads(c)) {
    // The last line of the first table is also in the second one.
    by_active.push_back(active == c.active ? by_length.back() : compare(with_active(c, active), c.lengths.back()));
    print(by_active.back());
  }
  if (c.svg.empty()) return;
  headmix::write_file(c.svg, draw(c, by_length, by_active));
  std::printf("\nwrote %s\n", c.svg.c_str());
}

}  // namespace bench
