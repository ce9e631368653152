#pragma once
// SPDX-License-Identifier: MIT
// The table that a run prints: a line per row, the medians of its repetitions.

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

 private:
  std::vector<std::pair<std::string, std::string>> context_;
  int name_width_ = 0;
  double fastest_ = 0, slowest_ = 0;  ///< of the row whose aggregates come next, in seconds
};

}  // namespace bench
