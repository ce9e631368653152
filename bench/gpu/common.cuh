#pragma once
// SPDX-License-Identifier: MIT
// Measuring and reporting by the GPU programs. A row is a line of fields separated by tabs:
//
//   group, name, microseconds, TFLOP/s, floor in microseconds, floor / time        "-" if there is none
//
// A floor is the larger of FLOPs over the measured rate of a large product and bytes over the measured rate of a copy.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "headmix/headmix.cuh"

namespace bench {

using headmix::bfloat16, headmix::Index, headmix::view;
using Backend = headmix::Cuda<bfloat16, headmix::Sm90a>;
// The name of the kernels in rows, if they are not the default ones of this GPU.
#ifdef HEADMIX_BENCH_DEVICE
inline constexpr char const* device_name = HEADMIX_BENCH_DEVICE;
#else
inline constexpr char const* device_name = "";
#endif

/// The ceilings of this GPU, as measured by ceilings.cu.
struct Ceilings {
  double tflops = 0;  ///< bfloat16 product of 8192^3
  double tbytes = 0;  ///< per second, read and written by a copy
};
/// Reads the arguments --tflops=800 --tbytes=3.
inline Ceilings ceilings_of(int argc, char** argv) {
  Ceilings c;
  for (int i = 1; i < argc; ++i) {
    std::sscanf(argv[i], "--tflops=%lf", &c.tflops);
    std::sscanf(argv[i], "--tbytes=%lf", &c.tbytes);
  }
  return c;
}
inline std::string option(int argc, char** argv, std::string const& name) {
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if (argument.starts_with("--" + name + "=")) return argument.substr(name.size() + 3);
  }
  return {};
}

/// Keeps the GPU busy until all timed work is in the stream.
template <int = 0>
__global__ void wait_cycles(long long cycles) {
  long long const start = clock64();
  while (clock64() - start < cycles) {
  }
}

/// Works for 0.3 s, once in a program, to raise the clocks before anything is timed.
inline void raise_clocks(cudaStream_t stream, std::function<void(int)> const& f) {
  static bool done = false;
  if (std::exchange(done, true)) return;
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  for (int i = 0; std::chrono::steady_clock::now() < end; ++i) {
    f(i % 3);
    headmix::cuda_kernels::check(cudaStreamSynchronize(stream), "waiting for the GPU");
  }
}

/// The times of f(0), f(1), f(2), f(0), ... in microseconds, sorted, by events around `batch` calls.
inline std::vector<double> times_us(cudaStream_t stream, std::function<void(int)> const& f, int times, int batch) {
  std::vector<cudaEvent_t> events(2 * static_cast<std::size_t>(times));
  for (auto& e : events) headmix::cuda_kernels::check(cudaEventCreate(&e), "creating an event");
  wait_cycles<><<<1, 1, 0, stream>>>(4'000'000);
  for (int i = 0; i < times; ++i) {
    auto const n = 2 * static_cast<std::size_t>(i);
    headmix::cuda_kernels::check(cudaEventRecord(events[n], stream), "an event");
    for (int j = 0; j < batch; ++j) f((i * batch + j) % 3);
    headmix::cuda_kernels::check(cudaEventRecord(events[n + 1], stream), "an event");
  }
  headmix::cuda_kernels::check(cudaStreamSynchronize(stream), "waiting for the GPU");
  std::vector<double> us;
  for (std::size_t n = 0; n < events.size(); n += 2) {
    float ms = 0;
    headmix::cuda_kernels::check(cudaEventElapsedTime(&ms, events[n], events[n + 1]), "reading an event");
    us.push_back(1000.0 * static_cast<double>(ms) / batch);
  }
  for (auto& e : events) cudaEventDestroy(e);
  std::sort(us.begin(), us.end());
  return us;
}

/// The median time. Different arguments of f are different buffers, so that large ones are not cached: see row(). Times
/// below 30 us, of which events are a part, are measured again with batches of ten: launches then overlap, as in a
/// layer.
inline double median_us(cudaStream_t stream, std::function<void(int)> const& f, int times = 50) {
  raise_clocks(stream, f);
  for (int i = 0; i < 3; ++i) f(i);
  auto const median = [](std::vector<double> const& us) { return us[us.size() / 2]; };
  double const us = median(times_us(stream, f, times, 1));
  return us < 30 ? median(times_us(stream, f, 21, 10)) : us;
}

/// True if three sets of buffers fit in the second-level cache.
inline bool cached(double megabytes) {
  int device = 0, bytes = 0;
  headmix::cuda_kernels::check(cudaGetDevice(&device), "asking the CUDA device");
  headmix::cuda_kernels::check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device),
                               "asking the CUDA device");
  return megabytes > 0 && 3e6 * megabytes < bytes;
}

/// A JSON string of text without control characters.
inline std::string json_quoted(std::string const& text) {
  std::string s = "\"";
  for (char const c : text) s.append(c == '"' || c == '\\' ? "\\" : "").push_back(c);
  return s + '"';
}

/// The subject of a row.
struct Subject {
  char const *group, *pass;  ///< kernel or layer; forward, or forward and backward, of layers
  std::string name;
  std::string over = {};  ///< the name of the compared row, of the same pass
  bool graph = false;
};
/// The fields of a row's subject, without braces.
inline std::string fields_of(Subject const& what) {
  return std::string("\"group\": ") + json_quoted(what.group) + ", \"name\": " + json_quoted(what.name) +
         ", \"pass\": " + json_quoted(what.pass) + ", \"graph\": " + (what.graph ? "true" : "false") +
         ", \"device\": " + json_quoted(device_name) + ", \"over\": " + json_quoted(what.over);
}
/// Prints a row, a line of JSON for table.cpp; gflop and megabytes may be 0. If buffers stay in the cache, the rate of
/// a copy is no floor.
inline void row(Subject const& what, double us, double gflop, double megabytes, Ceilings const& c) {
  bool const in_cache = cached(megabytes);
  double const compute = c.tflops > 0 ? gflop / c.tflops * 1e3 : 0;
  double const memory = c.tbytes > 0 && !in_cache ? megabytes / c.tbytes : 0, floor = std::max(compute, memory);
  std::printf("{%s, \"in_l2\": %s, \"us\": %.2f, \"tflops\": %.1f, \"floor_us\": %.2f}\n", fields_of(what).c_str(),
              in_cache ? "true" : "false", us, gflop / us * 1e3, floor);
  std::fflush(stdout);
}

/// Pseudo-random numbers, in about [-scale, scale].
template <class T>
struct fill {
  T* data;
  float scale;
  std::uint32_t seed;

  HEADMIX_HD void operator()(Index i) const {
    auto h = static_cast<std::uint32_t>(i) * 0x9E3779B9U + seed * 0x85EBCA6BU;
    h = (h ^ h >> 16) * 0x7FEB352DU;
    h = (h ^ h >> 15) * 0x846CA68BU;
    h ^= h >> 16;
    data[i] = static_cast<T>(scale * (static_cast<float>(h >> 8) * 0x1p-23F - 1.0F));
  }
};

/// A matrix, or a stack of them, in three copies.
template <class T>
struct Buffers {
  Index count, rows, cols;
  std::vector<headmix::cuda_kernels::memory> memory;

  Buffers(Backend& backend, Index n, Index r, Index c, float scale = 1) : count(n), rows(r), cols(c) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      memory.emplace_back(static_cast<std::size_t>(n * r * c) * sizeof(T));
      if constexpr (!std::is_same_v<T, headmix::Int>) {
        backend.for_each(n * r * c, fill<T>{memory.back().template as<T>(), scale, i + 1});
      }
    }
  }
  Buffers(Backend& backend, Index r, Index c, float scale = 1) : Buffers(backend, 1, r, c, scale) {}

  [[nodiscard]] view<T> operator()(int i) const {
    return {memory[static_cast<std::size_t>(i)].template as<T>(), count, rows, cols};
  }
  [[nodiscard]] double megabytes() const { return static_cast<double>(count * rows * cols) * sizeof(T) * 1e-6; }
};

}  // namespace bench
