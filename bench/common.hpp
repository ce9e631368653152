#pragma once
// SPDX-License-Identifier: MIT
// What the benchmarks share. Rows are named op/backend/scalar/T/D/E/K (what an op lacks is left out); FLOP/s counts two
// per multiply-add of the useful products. Results are checked before the timed loop.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "headmix/core/random.hpp"
#include "headmix/core/view.hpp"

namespace bench {

using headmix::Index;
using headmix::Int;
using headmix::view;

/// A matrix (or stack) of uniform numbers in [-1, 1).
template <class T>
class Matrix {
 public:
  Matrix(Index rows, Index cols) : Matrix(1, rows, cols) {}
  Matrix(Index count, Index rows, Index cols)
      : memory_(static_cast<std::size_t>(count * rows * cols)), count_(count), rows_(rows), cols_(cols) {
    headmix::Random const random(static_cast<std::uint64_t>(memory_.size()));
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<T>(2 * random.uniform(i) - 1);
  }
  [[nodiscard]] view<T> get() { return {memory_.data(), count_, rows_, cols_}; }
  [[nodiscard]] view<T const> get() const { return {memory_.data(), count_, rows_, cols_}; }
  [[nodiscard]] std::vector<T> const& values() const { return memory_; }

 private:
  std::vector<T> memory_;
  Index count_, rows_, cols_;
};

/// Ends the program when two results differ: a wrong kernel has no speed.
template <class T>
void check_equal(char const* name, std::vector<T> const& found, std::vector<T> const& expected, double tolerance) {
  double worst = 0, scale = 1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double const error = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    worst = error > worst || std::isnan(error) ? error : worst;
    scale = std::fmax(scale, std::abs(static_cast<double>(expected[i])));
  }
  if (!(worst <= tolerance * scale)) {
    std::fprintf(stderr, "%s: the result is off by %g of %g\n", name, worst, scale);
    std::exit(1);
  }
}

inline void count_flops(benchmark::State& state, double per_iteration) {
  state.counters["FLOP/s"] =
      benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
inline void count_tokens(benchmark::State& state, Index per_iteration) {
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(per_iteration), benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace bench
