#pragma once
// SPDX-License-Identifier: MIT
// The tables that a run prints: a line per row, the medians of its repetitions; and at the end what has a goal (see
// at_most() and maximum()), and the rows that were measured beside another one, with their counter `bound`.

#include <benchmark/benchmark.h>

#include <map>
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
  struct Goal {
    std::string name, what, steady;
    double found, spread, most, least, bound;  ///< not a number: none
  };
  struct Share {
    double peak, spread;
  };
  std::vector<std::pair<std::string, std::string>> context_;
  std::vector<Goal> goals_;
  std::map<std::string, Share> one_thread_;  ///< of the rows with one thread so far
  int name_width_ = 0;
};

}  // namespace bench
