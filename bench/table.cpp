// SPDX-License-Identifier: MIT
#include "table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

#include "machine.hpp"

namespace bench {
namespace {

/// The name without Google Benchmark's suffix for manual times.
std::string short_name(benchmark::BenchmarkReporter::Run const& run) {
  std::string name = run.run_name.str();
  if (auto const clock = name.find("/manual_time"); clock != std::string::npos) name.erase(clock);
  return name;
}

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double counter(benchmark::BenchmarkReporter::Run const& run, std::string const& name, double otherwise = 0) {
  auto const found = run.counters.find(name);
  return found == run.counters.end() ? otherwise : found->second.value;
}

/// The name of a row up to the number of threads, and that number.
std::pair<std::string, int> without_threads(std::string const& name) {
  auto const colon = name.rfind(':');
  return {name.substr(0, colon), std::atoi(name.c_str() + colon + 1)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::size_t const n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/// Half the distance from the least to the greatest, in per cent of the median.
double spread(std::vector<double> const& values) {
  auto const [least, greatest] = std::minmax_element(values.begin(), values.end());
  return *greatest == *least ? 0 : 50 * (*greatest - *least) / median(values);
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
      "multiply-add peak beside the repetition, in rows over bfloat16 of the peak of %s; %%product: of\n"
      "the best large float product (Eigen, OpenBLAS), whose share of the peak is measured once; both with as many\n"
      "threads. One thread by CPU time, more by wall clock. The word debug in the JSON's library_build_type is about\n"
      "Google Benchmark, which Debian builds with asserts.\n",
      bfloat16_products());
  name_width_ = static_cast<int>(std::min<std::size_t>(context.name_field_width, 72));
  std::printf("\n%-*s %10s %5s %4s %9s %6s %5s %9s %11s\n", name_width_, "row", "time", "+-%", "n", "GFLOP/s", "%peak",
              "+-%", "%product", "tokens/s");
  return true;
}

void Table::ReportRuns(std::vector<Run> const& runs) {
  // Called with the repetitions of a row and then, if there are several, with their aggregates.
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

  auto const list = [&](std::string const& what, double found, double spread) {
    double const most = counter(*all[0], what + ".most", none), least = counter(*all[0], what + ".least", none);
    if (what != "ratio" && std::isnan(most) && std::isnan(least)) return;
    goals_.push_back(
        {name, what, n, found, spread, most, least, what == "ratio" ? counter(*all[0], "bound", none) : none});
  };
  for (char const* what : {"ratio", "bytes", "peak", "MiB", "allocations"}) {
    if (all[0]->counters.count(what) != 0) list(what, median(of(what)), spread(of(what)));
  }
  if (all[0]->counters.count("peak") == 0) return;
  auto const [row, threads] = without_threads(name);
  Share const now = {median(of("peak")), spread(of("peak"))};
  if (threads == 1) {
    one_thread_[row] = now;
  } else if (auto const one = one_thread_.find(row); one != one_thread_.end()) {
    list("speedup", threads * now.peak / one->second.peak, now.spread + one->second.spread);
  }
}

void Table::Finalize() {
  if (goals_.empty()) return;
  int width = 0;
  for (Goal const& g : goals_) width = std::max(width, static_cast<int>(g.name.size()));
  std::printf(
      "\nratio: time relative to what the row is compared with (dense attention, a layer that sees all keys,\n"
      "a sparse mixture, Eigen), which runs before and after every run of the row; bound: by counting products.\n"
      "peak: as %%peak. speedup: over one thread, were the peak of all threads that of one\n"
      "times their number; what neighbours take from rows and peaks drops out. MiB: what the passes allocated,\n"
      "besides parameters and their gradients. allocations: of one run, after the first. bytes: of a decoder's cache,\n"
      "relative to dense attention.\n"
      "\n%-*s %-11s %8s %5s %4s %8s %8s\n",
      width, "row", "", "found", "+-%", "n", "goal", "bound");
  auto const number = [](double value) {
    if (std::isnan(value)) {
      std::printf(" %8s", "");
    } else {
      std::printf(" %8.3f", value);
    }
  };
  for (Goal const& g : goals_) {
    std::printf("%-*s %-11s", width, g.name.c_str(), g.what.c_str());
    number(g.found);
    std::printf(" %5.0f %4s", g.spread, g.steady.c_str());
    number(std::isnan(g.most) ? g.least : g.most);
    number(g.bound);
    std::printf("%s\n", g.found > g.most || g.found < g.least ? "  missed" : "");
  }
}

}  // namespace bench
