// SPDX-License-Identifier: MIT
#include "machine.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "headmix/backend/cpu/micro_kernel.hpp"

namespace bench {
namespace {

cpu_set_t const& allowed_cpus() {
  static cpu_set_t const set = [] {
    cpu_set_t s;
    CPU_ZERO(&s);
    if (sched_getaffinity(0, sizeof s, &s) != 0) CPU_SET(0, &s);
    return s;
  }();
  return set;
}

void run_on(Index nth) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed_cpus()) && nth-- == 0) CPU_SET(cpu, &one);
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// Seconds of the clock that rows with this many threads are timed by.
double seconds(Index threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The best rate of some runs of f, which does `flops`.
template <class F>
double best_rate(Index threads, double flops, F f) {
  double best = 0;
  for (int run = 0; run < 4; ++run) {
    double const start = seconds(threads);
    f();
    best = std::max(best, flops / (seconds(threads) - start));
  }
  return best;
}

template <class T>
double fma_rate(Index threads) {
  using block = headmix::cpu::register_block<T>;
  // Two units of four cycles each need eight sums in flight.
  constexpr int sums = 12, steps = 1 << 19;
  auto const loop = [](Index) {
    typedef T vector __attribute__((vector_size(block::bytes)));
    vector factor = vector{} + T(0.5), term = vector{} + T(1);
    asm volatile("" : "+x"(factor), "+x"(term));  // unknown to the optimiser from here on
    vector sum[sums];
    for (int i = 0; i < sums; ++i) sum[i] = term;
    for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 16
      for (int i = 0; i < sums; ++i) sum[i] = sum[i] * factor + term;
    }
    for (int i = 0; i < sums; ++i) asm volatile("" : : "x"(sum[i]));
  };
  double const flops = 2.0 * sums * steps * block::lanes * static_cast<double>(threads);
  return best_rate(threads, flops, [&] { pool(threads).parallel_for(threads, loop); });
}

constexpr Index product_rows = 1024, product_depth = 512, product_cols = 2048;
constexpr double product_flops = 2.0 * product_rows * product_depth * product_cols;

/// Operands of the product that is everybody's ceiling.
struct Product {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  matrix a = matrix::Random(product_rows, product_depth), b = matrix::Random(product_depth, product_cols),
         c = matrix::Zero(product_rows, product_cols);
};
Product& product() {
  static Product p;
  return p;
}

double eigen_rate(Index threads) {
  Product& p = product();
  auto const part = [&](Index i) {
    Index const first = product_rows * i / threads, last = product_rows * (i + 1) / threads;
    p.c.middleRows(first, last - first).noalias() = p.a.middleRows(first, last - first) * p.b;
  };
  return best_rate(threads, product_flops, [&] { pool(threads).parallel_for(threads, part); });
}

/// OpenBLAS, opened when the program runs: building the benchmarks then asks for no package.
class OpenBlas {
 public:
  OpenBlas() {
    void* const library = [] {
      void* const handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
      return handle ? handle : dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
    }();
    if (!library) {
      description_ = "not found (apt-get install libopenblas0, or name its folder in LD_LIBRARY_PATH)";
      return;
    }
    char* (*core_name)() = nullptr;
    char* (*config)() = nullptr;
    if (!find(library, "openblas_get_corename", core_name) || !find(library, "openblas_get_config", config) ||
        !find(library, "openblas_set_num_threads", set_threads_) || !find(library, "cblas_sgemm", sgemm_)) {
      description_ = "left out: the library lacks its usual functions";
      return;
    }
    std::string const core = core_name();
    description_ = "core type " + core + " (" + config() + ")";
    if (vector_bits(core) < cpu_bits()) {
      description_ += "; left out, since this CPU has " + std::to_string(cpu_bits()) +
                      "-bit vectors: set OPENBLAS_CORETYPE=" + (cpu_bits() == 512 ? "SKYLAKEX" : "HASWELL");
      return;
    }
    usable_ = true;
  }

  [[nodiscard]] std::string const& description() const { return description_; }

  double rate(Index threads) {
    if (!usable_) return 0;
    Product& p = product();
    constexpr int row_major = 101, plain = 111;
    set_threads_(static_cast<int>(threads));
    double const result = best_rate(threads, product_flops, [&] {
      sgemm_(row_major, plain, plain, product_rows, product_cols, product_depth, 1, p.a.data(), product_depth,
             p.b.data(), product_cols, 0, p.c.data(), product_cols);
    });
    // Its threads spin for a while after their work, on the CPUs that the next row needs.
    if (threads > 1) usleep(50000);
    return result;
  }

 private:
  template <class F>
  static bool find(void* library, char const* name, F& function) {
    void* const symbol = dlsym(library, name);
    std::memcpy(&function, &symbol, sizeof symbol);  // no cast leads from an object's address to a function's
    return symbol != nullptr;
  }
  static int cpu_bits() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 512;
    if (__builtin_cpu_supports("fma")) return 256;
#endif
    return 128;
  }
  /// Vectors of the kernels of a core type; those of Sandy Bridge and Bulldozer know no multiply-add and do not count.
  static int vector_bits(std::string const& core) {
    for (char const* name : {"SkylakeX", "Cooperlake", "Sapphirerapids"}) {
      if (core == name) return 512;
    }
    for (char const* name : {"Haswell", "Zen", "Excavator"}) {
      if (core == name) return 256;
    }
    return 128;
  }

  bool usable_ = false;
  std::string description_;
  void (*set_threads_)(int) = nullptr;
  void (*sgemm_)(int, int, int, int, int, int, float, float const*, int, float const*, int, float, float*,
                 int) = nullptr;
};
OpenBlas& openblas() {
  static OpenBlas library;
  return library;
}

}  // namespace

Index cpus() { return CPU_COUNT(&allowed_cpus()); }

headmix::thread_pool& pool(Index threads) {
  openblas();  // its threads inherit the CPUs of the thread that opens it: before this one is tied to a single CPU
  static std::map<Index, std::unique_ptr<headmix::thread_pool>> pools;
  auto& p = pools[threads];
  if (!p) {
    p = std::make_unique<headmix::thread_pool>(threads);
    if (threads <= cpus()) {
      std::atomic<Index> started{0};
      p->parallel_for(threads, [&](Index) {
        Index const mine = started++;
        while (started < threads) sched_yield();  // so that no thread takes two of the tasks
        run_on(mine);
      });
    }
  }
  return *p;
}

Ceilings const& ceilings(Index threads) {
  struct Measured {
    Ceilings rates;
    double when = 0;
  };
  static std::map<Index, Measured> measured;
  Measured& m = measured[threads];
  constexpr Index wall = 0;
  // Every time, since what a busy neighbour leaves of a shared machine changes from one moment to the next.
  m.rates.fma = fma_rate<float>(threads);
  m.rates.fma_double = fma_rate<double>(threads);
  if (m.when == 0 || seconds(wall) > m.when + 1) {
    m.rates.eigen = eigen_rate(threads);
    m.rates.openblas = openblas().rate(threads);
    m.when = seconds(wall);
  }
  return m.rates;
}

std::string const& openblas_description() { return openblas().description(); }

std::string cpu_model() {
  std::string model = "unknown";
  if (std::FILE* const f = std::fopen("/proc/cpuinfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f)) {
      if (std::strncmp(line, "model name", 10) != 0) continue;
      if (char const* const colon = std::strchr(line, ':')) {
        model = colon + 2;
        while (!model.empty() && model.back() == '\n') model.pop_back();
      }
      break;
    }
    std::fclose(f);
  }
  return model;
}

int simd_bits() { return 8 * headmix::cpu::register_block<float>::bytes; }

}  // namespace bench
