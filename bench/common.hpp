#pragma once
// SPDX-License-Identifier: MIT
// Shared parts of the benchmarks. Rows are named op/backend/scalar/sizes/threads; the direction is part of the op's
// name, and `backward` means forward and backward. FLOP/s counts two per multiply-add of useful products. Results are
// checked outside the timed loop.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/view.hpp"
#include "machine.hpp"
#include "measure.hpp"
#include "memory.hpp"
#include "rows.hpp"

namespace bench {

using headmix::Int;
using headmix::view;

/// The backend under test. With one thread its pool runs everything on the caller.
template <class T>
using Cpu = headmix::Cpu<T, headmix::thread_pool>;

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

 private:
  std::vector<T> memory_;
  Index count_, rows_, cols_;
};

/// Ends the program if two results differ: the speed of a wrong kernel is meaningless.
template <class T>
void check_equal(std::string const& name, view<T const> found, view<T const> expected, double tolerance) {
  double worst = 0, scale = 1;
  for (Index i = 0; i < expected.count * expected.rows; ++i) {
    for (Index j = 0; j < expected.cols; ++j) {
      double const a = static_cast<double>(found.row(i)[j * found.col_stride]);
      double const b = static_cast<double>(expected.row(i)[j * expected.col_stride]);
      worst = std::abs(a - b) > worst || std::isnan(a) ? std::abs(a - b) : worst;
      scale = std::fmax(scale, std::abs(b));
    }
  }
  if (!(worst <= tolerance * scale)) {
    std::fprintf(stderr, "%s: the result is off by %g of %g\n", name.c_str(), worst, scale);
    std::exit(1);
  }
}

/// The row that is being timed: the state of add() and time_calls().
struct TimedRow {
  Index threads = 1;
  Measured measured;
};
inline TimedRow timed_row;

/// Times `run`, after one run to touch memory and wake threads. See measure.hpp. The counter `allocations` is the mean
/// over runs; with a `base`, `ratio` is the time of base divided by the time of run.
template <class F>
void time_calls(benchmark::State& state, F run, std::function<void()> const& base = {}) {
  auto const seconds_of = [](auto& f) {
    double const start = seconds_of_clock(timed_row.threads);
    f();
    return seconds_of_clock(timed_row.threads) - start;
  };
  std::vector<Yardstick> yardsticks = {[](double seconds) { return peak(timed_row.threads, seconds); }};
  if (base) {
    base();
    yardsticks.push_back([&, once = seconds_of(base)](double seconds) {
      auto const n = (std::max)(Index{1}, static_cast<Index>(seconds / once));
      auto const bases = [&] {
        for (Index i = 0; i < n; ++i) base();
      };
      return static_cast<double>(n) / seconds_of(bases);
    });
  }
  auto const runs = static_cast<Index>(state.max_iterations);
  double const guess = seconds_of(run);
  long allocated = 0;
  Index repeated = 0;
  auto const repeat = [&](Index n) {
    long const before = allocations();
    for (Index i = 0; i < n; ++i) {
      run();
      benchmark::ClobberMemory();
    }
    allocated += allocations() - before;
    repeated += n;
  };
  timed_row.measured = measure(timed_row.threads, runs, guess, repeat, yardsticks);
  Measured const& m = timed_row.measured;
  while (state.KeepRunningBatch(runs)) state.SetIterationTime(m.seconds * static_cast<double>(runs));
  state.counters["steady"] = m.steady();
  state.counters["difference"] = m.difference;
  state.counters["allocations"] = static_cast<double>(allocated) / static_cast<double>(repeated);
  if (base) state.counters["ratio"] = m.seconds * m.rates[1];
}

/// Sets a goal for a counter of the row; the last table shows both. The table computes the counter `speedup` from this
/// row and the row of one thread.
inline void at_most(benchmark::State& state, std::string const& counter, double goal) {
  state.counters[counter + ".most"] = goal;
}
inline void maximum(benchmark::State& state, std::string const& counter, double goal) {
  state.counters[counter + ".least"] = goal;
}

/// FLOP/s of the runs of time_calls(), and their fractions of the machine's rate, measured in between with as many
/// threads. The ceiling of products is known for float only.
template <class T = float>
void count_flops(benchmark::State& state, Index threads, double per_iteration) {
  constexpr bool is_double = std::is_same_v<T, double>;
  Ceilings const& c = ceilings(threads);
  double const fraction = per_iteration / (timed_row.measured.seconds * timed_row.measured.rates[0]);
  state.counters["FLOP/s"] =
      benchmark::Counter(per_iteration, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  state.counters["peak"] = is_double ? fraction / c.fma_double : fraction;
  if (!is_double) state.counters["gemm"] = fraction / c.product();
}
inline void count_tokens(benchmark::State& state, Index per_iteration) {
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(per_iteration), benchmark::Counter::kIsIterationInvariantRate);
}

/// Adds a row for every shape (a number for each of `sizes`) and every count of `threads` for which the machine has
/// CPUs. run(state) reads the shape in state.range(i), followed by the thread count, and calls time_calls.
template <class F>
void add(std::string const& name, std::vector<std::string> sizes, std::vector<std::vector<std::int64_t>> const& shapes,
         std::initializer_list<Index> threads, F run) {
  sizes.emplace_back("threads");
  for (Index const n : threads) {
    if (n > cpus()) continue;
    auto const timed = [run, n](benchmark::State& state) {
      timed_row = {n, {}};
      run(state);
    };
    auto with_threads = shapes;
    for (auto& shape : with_threads) shape.push_back(n);
    add_family({name, sizes, std::move(with_threads), timed});
  }
}

}  // namespace bench
