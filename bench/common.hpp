#pragma once
// SPDX-License-Identifier: MIT
// What the benchmarks share. Rows are named op/backend/scalar/sizes/threads; an op's direction is part of its name, and
// `backward` means forward and backward. FLOP/s counts two per multiply-add of the useful products. Results are checked
// outside the timed loop.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/random.hpp"
#include "headmix/core/view.hpp"
#include "machine.hpp"

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

/// Ends the program when two results differ: a wrong kernel has no speed.
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

/// Times `run`, which has run once before: first touches of memory and sleeping threads are nobody's speed.
template <class F>
void time_calls(benchmark::State& state, F run) {
  run();
  for (auto _ : state) {
    run();
    benchmark::ClobberMemory();
  }
}

/// FLOP/s, and their fraction of what the machine reaches now with as many threads. The ceiling of products is known
/// for float only.
template <class T = float>
void count_flops(benchmark::State& state, Index threads, double per_iteration) {
  auto const count = [&](char const* name, double n) {
    state.counters[name] =
        benchmark::Counter(n, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  };
  Ceilings const& now = ceilings(threads);
  count("FLOP/s", per_iteration);
  count("peak", per_iteration / (std::is_same_v<T, double> ? now.fma_double : now.fma));
  if (std::is_same_v<T, float>) count("gemm", per_iteration / now.product());
}
inline void count_tokens(benchmark::State& state, Index per_iteration) {
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(per_iteration), benchmark::Counter::kIsIterationInvariantRate);
}

/// Adds a row for every shape (a number for each of `sizes`) and every count of `threads` that the machine has CPUs
/// for. run(state) finds the shape in state.range(i), the thread count behind it. Rows with one thread report by CPU
/// time, others by wall clock.
template <class F>
void add(std::string const& name, std::vector<std::string> sizes, std::vector<std::vector<std::int64_t>> const& shapes,
         std::initializer_list<Index> threads, F run) {
  sizes.emplace_back("threads");
  for (Index const n : threads) {
    if (n > cpus()) continue;
    auto* const rows = benchmark::RegisterBenchmark(name.c_str(), run)->ArgNames(sizes);
    for (auto shape : shapes) {
      shape.push_back(n);
      rows->Args(shape);
    }
    if (n > 1) rows->UseRealTime();
  }
}

}  // namespace bench
