// SPDX-License-Identifier: MIT
// headmix-bench: runs the rows and prints one line for each. Google Benchmark's options and environment variables work.
// With --layer moh --heads 16 --active 8 it times one layer and dense attention (vs_dense/configuration.hpp). With
// --sizes T=4096,head_dim=96 it times rows with these sizes. With --on_request it reads names of rows, one per line,
// and runs them, for a program that alternates them with its own.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../examples/command_line.hpp"
#include "headmix/core/version.hpp"
#include "machine.hpp"
#include "rows.hpp"
#include "table.hpp"
#include "vs_dense/configuration.hpp"

namespace {

/// Settings of this run for readers of the JSON; the table prints them too.
std::vector<std::pair<std::string, std::string>> describe_run() {
#if defined(__clang__)
  std::string const compiler = "clang++ " __clang_version__;
#else
  std::string const compiler = "g++ " __VERSION__;
#endif
  std::vector<std::pair<std::string, std::string>> lines = {
      {"cpu", bench::cpu_model()},
      {"cpus", std::to_string(bench::cpus())},
      {"simd_bits", std::to_string(bench::simd_bits())},
      {"compiler", compiler},
      {"flags", HEADMIX_BENCH_FLAGS},
      {"headmix", std::to_string(HEADMIX_VERSION_MAJOR) + "." + std::to_string(HEADMIX_VERSION_MINOR) + "." +
                      std::to_string(HEADMIX_VERSION_PATCH)},
      {"openblas", bench::openblas_description()},
      {"bfloat16_products", bench::bfloat16_products()},
  };
  for (headmix::Index const threads : {1, 2}) {
    if (threads > bench::cpus()) continue;
    bench::Ceilings const& c = bench::ceilings(threads);
    auto const add = [&](std::string name, double number, double unit) {
      if (number > 0) {
        lines.emplace_back(name + "_" + std::to_string(threads) + "_threads",
                           std::to_string(static_cast<int>(number / unit + 0.5)));
      }
    };
    add("fma_peak_gflops", c.fma, 1e9);
    add("fma_double_percent", c.fma_double, 0.01);
    add("bfloat16_peak_percent", c.bfloat16, 0.01);
    add("eigen_product_percent", c.eigen, 0.01);
    add("openblas_product_percent", c.openblas, 0.01);
  }
  return lines;
}

/// Answers requests by a line of numbers for every repetition.
class Answers : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override { return true; }
  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      auto const counter = [&](char const* name) { return run.counters.at(name).value; };
      std::printf("%.9g s %.6g FLOP/s %.4g peak %.0f steady\n",
                  run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit), counter("FLOP/s"),
                  counter("peak"), counter("steady"));
    }
  }
};

/// Every answer ends with an empty line, also for an unknown name.
void answer_requests() {
  for (auto const& [key, value] : describe_run()) std::printf("%s\t%s\n", key.c_str(), value.c_str());
  std::string name;
  do {
    std::puts("");
    std::fflush(stdout);
    if (!std::getline(std::cin, name)) return;
    Answers answers;
    benchmark::RunSpecifiedBenchmarks(&answers, "^" + name + "/manual_time$");
  } while (true);
}

/// The options of headmix-bench itself.
std::string help_text() {
  return "headmix-bench: times the rows of kernels and layers, or a layer beside dense attention\n\n"
         "  --sizes NAME=NUMBER,...                 rows that have all of these sizes, once each, with these sizes\n"
         "  --on_request                            runs the rows whose names are read, one per line\n"
         "  --help                                  prints this and exits\n\n"
         "headmix-bench --layer LAYER [--option VALUE | --option=VALUE]..., defaults in brackets:\n\n" +
         bench::configuration_help() + "\nWithout --layer, the options of Google Benchmark choose and repeat rows:\n\n";
}

int run(int argc, char** argv) {
  std::vector<std::string> const own(argv + (argc > 0 ? 1 : 0), argv + argc);
  bool const help = command_line::asks_for_help(own);
  auto const is_layer = [](std::string const& word) { return word == "--layer" || word.starts_with("--layer="); };
  if (help) {
    std::fputs(help_text().c_str(), stdout);
    std::fflush(stdout);
  } else if (std::any_of(own.begin(), own.end(), is_layer)) {
    bench::time_vs_dense(bench::parse_configuration(own));
    return 0;
  }
  // Seven repetitions suffice for bench/compare to compare two runs. Options of the caller and of the environment
  // override these defaults.
  std::vector<std::string> arguments = {argv[0]};
  auto const by_default = [&](char const* variable, char const* option) {
    if (!std::getenv(variable)) arguments.emplace_back(option);
  };
  by_default("BENCHMARK_REPETITIONS", "--benchmark_repetitions=7");
  by_default("BENCHMARK_MIN_TIME", "--benchmark_min_time=0.05");
  if (help) {
    arguments.emplace_back("--help");  // Google Benchmark prints its own and exits
  } else {
    arguments.insert(arguments.end(), own.begin(), own.end());
  }
  bool const on_request = std::erase(arguments, "--on_request") > 0;
  std::string sizes;
  if (auto const at = std::find(arguments.begin(), arguments.end(), "--sizes"); at != arguments.end()) {
    if (at + 1 == arguments.end()) throw std::invalid_argument("--sizes: expected NAME=NUMBER,... behind it");
    sizes = at[1];
    arguments.erase(at, at + 2);
  }
  std::vector<char*> pointers;
  for (auto& a : arguments) pointers.push_back(a.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;

  bench::register_rows(sizes);
  if (on_request) {
    answer_requests();
    return 0;
  }
  auto const context = describe_run();
  for (auto const& [key, value] : context) benchmark::AddCustomContext("headmix_" + key, value);
  bench::Table table(context);
  std::size_t const rows = benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
  return rows == 0 ? 2 : 0;  // a filter without a match is an error
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "headmix-bench: %s\n", e.what());
    return 2;
  }
}
