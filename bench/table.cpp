// SPDX-License-Identifier: MIT
#include "table.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace bench {
namespace {

/// The name without Google Benchmark's word for rows that say their time themselves.
std::string short_name(benchmark::BenchmarkReporter::Run const& run) {
  std::string name = run.run_name.str();
  if (auto const clock = name.find("/manual_time"); clock != std::string::npos) name.erase(clock);
  return name;
}

double counter(benchmark::BenchmarkReporter::Run const& run, char const* name) {
  auto const found = run.counters.find(name);
  return found == run.counters.end() ? 0 : found->second.value;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t const n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// Half the distance from the least to the greatest, in per cent of the median.
double spread(std::vector<double> const& values) {
  auto const [least, greatest] = std::minmax_element(values.begin(), values.end());
  return 50 * (*greatest - *least) / median(values);
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
      "\nMedians. +-: half the distance from the fastest to the slowest repetition, or from the least to the greatest\n"
      "fraction. n: steady repetitions, the others are left out; ~ if they are too few and all are shown. %%peak: of "
      "the\n"
      "multiply-add peak beside the repetition; %%product: of the best large float product (Eigen, OpenBLAS), whose "
      "share\n"
      "of the peak is measured once; both with as many threads. One thread by CPU time, more by wall clock. The word\n"
      "debug in the JSON's library_build_type is about Google Benchmark, which Debian builds with asserts.\n");
  name_width_ = static_cast<int>(std::min<std::size_t>(context.name_field_width, 72));
  std::printf("\n%-*s %10s %5s %4s %9s %6s %5s %9s %11s\n", name_width_, "row", "time", "+-%", "n", "GFLOP/s", "%peak",
              "+-%", "%product", "tokens/s");
  return true;
}

void Table::ReportRuns(std::vector<Run> const& runs) {
  // Called with the repetitions of a row and then, when there are several, with their aggregates.
  std::vector<Run const*> all, steady;
  for (Run const& run : runs) {
    if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
    all.push_back(&run);
    if (counter(run, "steady") > 0) steady.push_back(&run);
  }
  if (all.empty()) return;
  bool const enough = steady.size() >= (all.size() + 1) / 2;
  auto const& shown = enough ? steady : all;
  auto const values = [&](auto value) {
    std::vector<double> result;
    for (Run const* run : shown) result.push_back(value(*run));
    return result;
  };
  auto const of = [&](char const* name) { return values([name](Run const& run) { return counter(run, name); }); };
  auto const seconds = values(
      [](Run const& run) { return run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit); });
  std::string const name = short_name(*all[0]), n = std::to_string(steady.size()) + (enough ? "" : "~");
  std::printf("%-*s %10s %5.0f %4s", name_width_, name.c_str(), time_text(median(seconds)).c_str(), spread(seconds),
              n.c_str());
  auto const column = [&](char const* counter, int width, double scale) {
    bool const has = all[0]->counters.count(counter) != 0;
    double const number = has ? median(of(counter)) * scale : 0;
    if (has) {
      std::printf(" %*.*f", width, number < 10 ? 1 : 0, number);
    } else {
      std::printf(" %*s", width, "");
    }
    return has;
  };
  column("FLOP/s", 9, 1e-9);
  if (column("peak", 6, 100)) {
    std::printf(" %5.0f", spread(of("peak")));
  } else {
    std::printf(" %5s", "");
  }
  column("gemm", 9, 100);
  column("tokens/s", 11, 1);
  std::printf("\n");
  std::fflush(stdout);
  if (all[0]->counters.count("ratio") != 0) {
    ratios_.push_back({name, n, median(of("ratio")), spread(of("ratio")), median(of("goal")), median(of("bound"))});
  }
}

void Table::Finalize() {
  if (ratios_.empty()) return;
  int width = 0;
  for (Ratio const& r : ratios_) width = std::max(width, static_cast<int>(r.name.size()));
  std::printf(
      "\nTimes by that of what it replaces (dense attention, a sparse mixture), which runs before and after every run "
      "of the row. bound: by counting "
      "products.\n"
      "\n%-*s %7s %5s %4s %7s %7s\n",
      width, "row", "ratio", "+-%", "n", "goal", "bound");
  auto const number = [](double value) {
    if (value > 0) {
      std::printf(" %7.3f", value);
    } else {
      std::printf(" %7s", "");
    }
  };
  for (Ratio const& r : ratios_) {
    std::printf("%-*s", width, r.name.c_str());
    number(r.ratio);
    std::printf(" %5.0f %4s", r.spread, r.steady.c_str());
    number(r.goal);
    number(r.bound);
    std::printf("%s\n", r.goal > 0 && r.ratio > r.goal ? "  missed" : "");
  }
}

}  // namespace bench
