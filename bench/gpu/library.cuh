#pragma once
// SPDX-License-Identifier: MIT
// A program's rows as a shared library with a C interface, so that baselines.py can time a row and PyTorch's in turn,
// in one process and on one stream. A unit defines bench::timed_rows() and bench::passes_repeat(); it is linked twice,
// as this library and as a program that runs passes_repeat().

#include <memory>

#include "common.cuh"

namespace bench {

/// Work on three sets of buffers: f(0), f(1), f(2), f(0), ...
using Work = std::function<void(int)>;
/// A row, whose work is prepared on a stream when it is asked for.
struct TimedRow {
  Subject what;
  double gflop, megabytes;
  std::function<Work(cudaStream_t)> prepare;
  bool capturable = true;  ///< false: it copies from the host
};

/// The rows of this unit.
std::vector<TimedRow> timed_rows();
/// True if 20 passes of each of some layers agree bit by bit; prints a row for each.
bool passes_repeat();

/// The rate of the clock of the processor that runs it: cycles and nanoseconds between two steps of the global timer
/// that are 16 us apart, since on some devices it steps once a microsecond.
template <int = 0>
__global__ void sm_clock(unsigned long long* cycles_and_ns) {
  auto const now = [] {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
  };
  auto const next_step = [&](unsigned long long least) {
    unsigned long long const before = now();
    unsigned long long ns = before;
    while (ns == before || ns < least) ns = now();
    return ns;
  };
  unsigned long long const first = next_step(0);
  long long const begin = clock64();
  unsigned long long const last = next_step(first + 16'000);
  cycles_and_ns[0] = static_cast<unsigned long long>(clock64() - begin);
  cycles_and_ns[1] = last - first;
}

inline std::vector<TimedRow> const& all_timed_rows() {
  static std::vector<TimedRow> const rows = timed_rows();
  return rows;
}
inline std::string& last_error() {
  static std::string text;
  return text;
}
/// f(), or `failed` and its error as text.
template <class R, class F>
R without_exceptions(R failed, F f) {
  try {
    return f();
  } catch (std::exception const& error) {
    last_error() = error.what();
    return failed;
  }
}

}  // namespace bench

extern "C" {
/// The number of rows.
int headmix_bench_rows() { return static_cast<int>(bench::all_timed_rows().size()); }
/// Row n as JSON: the fields that table.cpp reads, with gflop and megabytes in place of times.
char const* headmix_bench_row(int n) {
  static std::string text;
  auto const& row = bench::all_timed_rows().at(static_cast<std::size_t>(n));
  text = "{" + bench::fields_of(row.what) + ", \"gflop\": " + std::to_string(row.gflop) +
         ", \"megabytes\": " + std::to_string(row.megabytes) +
         ", \"capturable\": " + (row.capturable ? "true" : "false") + "}";
  return text.c_str();
}
/// The work of row n on a stream, to be released; null after an error.
void* headmix_bench_prepare(int n, void* stream) {
  return bench::without_exceptions<void*>(nullptr, [&] {
    auto const& row = bench::all_timed_rows().at(static_cast<std::size_t>(n));
    return new bench::Work(row.prepare(static_cast<cudaStream_t>(stream)));
  });
}
/// Submits the work on buffers i; 0 if it succeeds.
int headmix_bench_run(void* work, int i) {
  return bench::without_exceptions(1, [&] { return (*static_cast<bench::Work*>(work))(i), 0; });
}
void headmix_bench_release(void* work) { delete static_cast<bench::Work*>(work); }
/// Submits a measurement of the clock: cycles and nanoseconds, on the device.
int headmix_bench_clock(void* stream, unsigned long long* cycles_and_ns) {
  bench::sm_clock<><<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cycles_and_ns);
  return static_cast<int>(cudaGetLastError());
}
/// The text of the last error.
char const* headmix_bench_error() { return bench::last_error().c_str(); }
}

/// --times [--tflops=T] [--tbytes=T]: all rows alone, where there is no PyTorch; else passes_repeat().
int main(int argc, char** argv) {
  int const status = bench::without_exceptions(2, [&] {
    if (argc < 2 || std::string(argv[1]) != "--times") return bench::passes_repeat() ? 0 : 1;
    cudaStream_t stream;
    headmix::cuda_kernels::check(cudaStreamCreate(&stream), "creating a CUDA stream");
    for (auto const& row : bench::all_timed_rows()) {
      bench::row(row.what, bench::median_us(stream, row.prepare(stream), 30), row.gflop, row.megabytes,
                 bench::ceilings_of(argc, argv));
    }
    return 0;
  });
  if (status == 2) std::fprintf(stderr, "%s\n", bench::last_error().c_str());
  return status;
}
