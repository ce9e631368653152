#pragma once
// SPDX-License-Identifier: MIT
// The tables of a run: a line per row, with medians of its repetitions; at the end the rows with a goal (see at_most()
// and maximum()), and rows that were compared with another one, with their counter `bound`.

#include <benchmark/benchmark.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace bench {

class Table : public benchmark::BenchmarkReporter {
 public:
  /// `context`: lines above the table.
  explicit Table(std::vector<std::pair<std::string, std::string>> context) : context_(std::move(context)) {}

  bool ReportContext(Context const& context) override;
  void ReportRuns(std::vector<Run> const& runs) override;
  void Finalize() override;

 private:
  struct Goal {
    std::string name, what, steady;
    double found, spread, most, least, bound;  ///< NaN: none
  };
  struct Share {
    double peak, spread;
  };
  std::vector<std::pair<std::string, std::string>> context_;
  std::vector<Goal> goals_;
  std::map<std::string, Share> one_thread_;  ///< of previous rows with one thread
  int name_width_ = 0;
};

}  // namespace bench
