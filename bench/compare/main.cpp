// SPDX-License-Identifier: MIT
// headmix-bench-compare A.json B.json: for every row the medians of two runs, their ratio, and whether the difference
// exceeds noise. Reads Google Benchmark's JSON with repetitions. Exit status 2 and one line on stderr for any other
// file.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headmix/io/file.hpp"
#include "headmix/io/json.hpp"

namespace {

struct Row {
  std::string name;
  std::vector<double> seconds;  ///< of the repetitions, ascending
};
struct Run {
  std::vector<Row> rows;                       ///< in the order of the file
  std::map<std::string, std::string> context;  ///< settings of the run
};

double unit_seconds(headmix::JsonReader& json) {
  std::string const unit = json.string();
  for (auto const& [name, seconds] : {std::pair{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}) {
    if (unit == name) return seconds;
  }
  json.reject("ns, us, ms or s", unit);
}

/// Adds one element of "benchmarks" if it is a repetition, not an aggregate.
void read_benchmark(headmix::JsonReader& json, std::vector<Row>& rows) {
  std::string name, run_name, type = "iteration";
  double real = -1, cpu = -1, unit = 1e-9;
  bool failed = false;
  json.object([&](std::string const& key) {
    if (key == "name") {
      name = json.string();
    } else if (key == "run_name") {
      run_name = json.string();
    } else if (key == "run_type") {
      type = json.string();
    } else if (key == "real_time") {
      real = json.number();
    } else if (key == "cpu_time") {
      cpu = json.number();
    } else if (key == "time_unit") {
      unit = unit_seconds(json);
    } else {
      failed = failed || key == "error_occurred";
      json.skip();
    }
  });
  if (type != "iteration" || failed) return;
  if (!run_name.empty()) name = run_name;
  // The time by which the row is reported.
  bool const wall = cpu < 0 || name.find("/real_time") != name.npos || name.find("/manual_time") != name.npos;
  double const time = (wall ? real : cpu) * unit;
  if (name.empty() || !(time > 0)) json.reject("a name and a time", "a benchmark without");
  auto row = std::find_if(rows.begin(), rows.end(), [&](Row const& r) { return r.name == name; });
  if (row == rows.end()) row = rows.insert(row, {name, {}});
  row->seconds.insert(std::upper_bound(row->seconds.begin(), row->seconds.end(), time), time);
}

Run read_run(std::string const& path) {
  headmix::InputFile file(path);
  auto const bytes = headmix::read_bytes(file, std::string::npos);
  std::string text(reinterpret_cast<char const*>(bytes.data()), bytes.size());
  // Google Benchmark writes NaN, which JSON lacks, for 0 / 0: the relative deviation of a counter that is 0.
  for (std::size_t at = 0; (at = text.find(": NaN", at)) != text.npos;) text.replace(at, 5, ": null");
  headmix::JsonReader json(text, path);
  Run run;
  json.object([&](std::string const& key) {
    if (key == "benchmarks") {
      json.array([&] { read_benchmark(json, run.rows); });
    } else if (key == "context") {
      json.object([&](std::string const& member) {
        if (member.starts_with("headmix_")) {
          run.context[member.substr(8)] = json.string();
        } else {
          json.skip();
        }
      });
    } else {
      json.skip();
    }
  });
  json.end();
  if (run.rows.empty()) headmix::fail(path, ": no benchmark was measured in it");
  return run;
}

double median(std::vector<double> const& ascending) {
  std::size_t const n = ascending.size();
  return (ascending[(n - 1) / 2] + ascending[n / 2]) / 2;
}

/// The two-sided p of the Mann-Whitney U test: the probability that two samples of one distribution differ in rank as
/// much as these. Exact (equal times, which are rare, count half), for any distribution.
double mann_whitney_p(std::vector<double> const& a, std::vector<double> const& b) {
  double u = 0;  // number of pairs with a smaller
  for (double const x : a) {
    for (double const y : b) u += x < y ? 1 : x == y ? 0.5 : 0;
  }
  std::size_t const n = a.size(), m = b.size();
  // ways[i]: orders of n + m times with U = i, the coefficients of prod_{j=1..n} (1 - x^(m+j)) / (1 - x^j).
  std::vector<double> ways(n * m + 1);
  ways[0] = 1;
  for (std::size_t j = 1; j <= n; ++j) {
    for (std::size_t i = ways.size(); i-- > m + j;) ways[i] -= ways[i - m - j];
    for (std::size_t i = j; i < ways.size(); ++i) ways[i] += ways[i - j];
  }
  double const extreme = std::min(u, static_cast<double>(n * m) - u);
  double tail = 0, all = 0;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    all += ways[i];
    if (static_cast<double>(i) <= extreme) tail += ways[i];
  }
  return std::min(1.0, 2 * tail / all);
}

/// Differences with a smaller p are significant. Of a hundred rows, one is then called different by chance.
constexpr double significant = 0.01;

char const* verdict(Row const& a, Row const& b, double p) {
  // The smallest p for these numbers of repetitions is that of two runs without overlap.
  if (mann_whitney_p(std::vector<double>(a.seconds.size(), 0), std::vector<double>(b.seconds.size(), 1)) >= significant)
    return "too few repetitions";
  if (p >= significant) return "noise";
  return median(b.seconds) < median(a.seconds) ? "faster" : "slower";
}

void print_alone(char const* which, std::vector<Row> const& rows, std::vector<Row> const& others) {
  for (Row const& row : rows) {
    if (std::none_of(others.begin(), others.end(), [&](Row const& r) { return r.name == row.name; }))
      std::printf("only in %s: %s\n", which, row.name.c_str());
  }
}

void compare(Run const& a, Run const& b) {
  for (auto const& [key, value] : a.context) {
    auto const other = b.context.find(key);
    bool const speed = key.find("gflops") != key.npos || key.find("percent") != key.npos;
    if (other != b.context.end() && other->second != value && !speed)
      std::printf("%s differs: %s | %s\n", key.c_str(), value.c_str(), other->second.c_str());
  }
  std::size_t width = 4;
  for (Row const& row : a.rows) width = std::max(width, row.name.size());
  std::printf("%-*s %12s %12s %7s %8s  %s\n", static_cast<int>(width), "row", "A median s", "B median s", "B/A", "p",
              "");
  for (Row const& row : a.rows) {
    auto const other = std::find_if(b.rows.begin(), b.rows.end(), [&](Row const& r) { return r.name == row.name; });
    if (other == b.rows.end()) continue;
    double const before = median(row.seconds), after = median(other->seconds);
    double const p = mann_whitney_p(row.seconds, other->seconds);
    std::printf("%-*s %12.4e %12.4e %7.3f %8.4f  %s\n", static_cast<int>(width), row.name.c_str(), before, after,
                after / before, p, verdict(row, *other, p));
  }
  print_alone("A", a.rows, b.rows);
  print_alone("B", b.rows, a.rows);
  std::printf(
      "p: Mann-Whitney U over the repetitions, a difference below %.2f. It knows one process from another no better\n"
      "than one code from another: repeat a run of the same program to see what two processes alone make.\n",
      significant);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: headmix-bench-compare A.json B.json\n", stderr);
    return 2;
  }
  try {
    Run const a = read_run(argv[1]), b = read_run(argv[2]);
    compare(a, b);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return std::fflush(stdout) == 0 ? 0 : 2;
}
