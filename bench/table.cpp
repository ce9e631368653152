// SPDX-License-Identifier: MIT
#include "table.hpp"

#include <algorithm>
#include <cstdio>

namespace bench {
namespace {

/// The name without Google Benchmark's word for rows by wall clock, which are those with several threads.
std::string short_name(benchmark::BenchmarkReporter::Run const& run) {
  std::string name = run.run_name.str();
  if (auto const clock = name.find("/real_time"); clock != std::string::npos) name.erase(clock);
  return name;
}

bool by_wall_clock(benchmark::BenchmarkReporter::Run const& run) { return !run.run_name.time_type.empty(); }

/// Seconds of one iteration by the clock of the row.
double seconds(benchmark::BenchmarkReporter::Run const& run) {
  double const in_units = by_wall_clock(run) ? run.GetAdjustedRealTime() : run.GetAdjustedCPUTime();
  return in_units / benchmark::GetTimeUnitMultiplier(run.time_unit);
}

std::string time_text(double seconds) {
  struct unit {
    char const* name;
    double scale;
  };
  unit const chosen = seconds < 1e-6 ? unit{"ns", 1e9} : seconds < 1e-3 ? unit{"us", 1e6} : unit{"ms", 1e3};
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", seconds * chosen.scale, chosen.name);
  return text;
}

}  // namespace

bool Table::ReportContext(Context const& context) {
  for (auto const& [key, value] : context_) std::printf("%-30s %s\n", key.c_str(), value.c_str());
  std::printf(
      "\nMedians. +-: half the distance from the fastest to the slowest repetition. %%peak: of the multiply-add peak "
      "that\n"
      "was measured after each repetition; %%product: of the best large float product (Eigen, OpenBLAS), measured "
      "within\n"
      "a second of it; both with as many threads. One thread by CPU time, more by wall clock. The word debug in the\n"
      "JSON's library_build_type is about Google Benchmark, which Debian builds with asserts, not about headmix.\n");
  name_width_ = static_cast<int>(std::min<std::size_t>(context.name_field_width, 72));
  std::printf("\n%-*s %10s %5s %9s %6s %9s %11s\n", name_width_, "row", "time", "+-%", "GFLOP/s", "%peak", "%product",
              "tokens/s");
  return true;
}

void Table::ReportRuns(std::vector<Run> const& runs) {
  // Called with the repetitions of a row and then, when there are several, with their aggregates.
  Run const* shown = nullptr;
  for (Run const& run : runs) {
    if (run.run_type == Run::RT_Iteration) {
      if (run.repetition_index == 0) fastest_ = slowest_ = seconds(run);
      fastest_ = std::min(fastest_, seconds(run));
      slowest_ = std::max(slowest_, seconds(run));
      if (run.repetitions == 1) shown = &run;
    } else if (run.aggregate_name == "median") {
      shown = &run;
    }
  }
  if (!shown) return;
  double const time = seconds(*shown);
  std::printf("%-*s %10s %5.0f", name_width_, short_name(*shown).c_str(), time_text(time).c_str(),
              50 * (slowest_ - fastest_) / time);
  auto const column = [&](char const* counter, int width, double scale) {
    if (auto const found = shown->counters.find(counter); found != shown->counters.end()) {
      std::printf(" %*.*f", width, found->second.value * scale < 10 ? 1 : 0, found->second.value * scale);
    } else {
      std::printf(" %*s", width, "");
    }
  };
  column("FLOP/s", 9, 1e-9);
  column("peak", 6, 100);
  column("gemm", 9, 100);
  column("tokens/s", 11, 1);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace bench
