#pragma once
// SPDX-License-Identifier: MIT
// The tables that a run prints: a line per row, the medians of its repetitions; and at the end the rows that were
// measured beside another one, with the counters `goal` and `bound` of those that have them.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

namespace bench {

class Table : public benchmark::BenchmarkReporter {
 public:
  /// `context`: what is printed above the table, line by line.
  explicit Table(std::vector<std::pair<std::string, std::string>> context) : context_(std::move(context)) {}

  bool ReportContext(Context const& context) override;
  void ReportRuns(std::vector<Run> const& runs) override;
  void Finalize() override;

 private:
  struct Ratio {
    std::string name, steady;
    double ratio, spread, goal, bound;  ///< 0: none
  };
  std::vector<std::pair<std::string, std::string>> context_;
  std::vector<Ratio> ratios_;
  int name_width_ = 0;
};

}  // namespace bench
