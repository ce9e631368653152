#pragma once
// SPDX-License-Identifier: MIT
// The rows that there are, and rows with sizes of the caller's own.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Rows that differ in their sizes: a row for every shape, which has a number for each of `sizes`.
struct Family {
  std::string name;
  std::vector<std::string> sizes;
  std::vector<std::vector<std::int64_t>> shapes;
  std::function<void(benchmark::State&)> run;  ///< finds the shape in state.range(i)
};

/// Before main().
void add_family(Family family);
/// Gives Google Benchmark all rows. With `own_sizes`, "T=4096,K=4", only one of every family that has all of these
/// sizes: its first shape with them. Throws std::invalid_argument if they are none, or of no row.
void register_rows(std::string_view own_sizes);

}  // namespace bench
