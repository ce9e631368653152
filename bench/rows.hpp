#pragma once
// SPDX-License-Identifier: MIT
// The registered rows, and rows with sizes of the caller.

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
  std::function<void(benchmark::State&)> run;  ///< reads the shape in state.range(i)
};

/// Registers a family; before main().
void add_family(Family family);
/// Registers all rows with Google Benchmark. With `own_sizes`, "T=4096,K=4", only one row of every family that has all
/// of these sizes: its first shape with them. Throws std::invalid_argument if the text has no sizes, or sizes of no
/// row.
void register_rows(std::string_view own_sizes);

}  // namespace bench
