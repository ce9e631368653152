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

#include "headmix/backend/cpu/products/dot_products.hpp"
#include "headmix/backend/cpu/products/register_block.hpp"
#include "measure.hpp"

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

/// Multiply-adds on registers for about ten microseconds. `usual`: FLOP/s of a thread, for the number of tasks.
template <class T>
struct MultiplyAdds {
  static constexpr char const* name = "multiply-adds of float";
  static constexpr double usual = 100e9;
  using block = headmix::cpu_kernels::register_block<T>;
  // Two units of four cycles each need eight sums in flight.
  static constexpr int sums = 12, steps = 1 << 14;
  static constexpr double flops = 2.0 * sums * steps * block::lanes;

  void operator()(Index) const {
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
  }
};

/// Dot products of two bfloat16s on registers.
struct DotProducts {
  static constexpr char const* name = "dot products";
  static constexpr double usual = 200e9;
  // Two units of six cycles each need twelve sums in flight.
  static constexpr int sums = 16, steps = 1 << 14;
  static constexpr double flops = 4.0 * sums * steps * headmix::cpu_kernels::register_block<float>::lanes;

  HEADMIX_WHOLE_VECTORS void operator()(Index) const {
    using namespace headmix::cpu_kernels::detail;
    vector<pair> left = vector<pair>{} + 0x3F003F00u, right = vector<pair>{} + 0x3F803F80u;  // 0.5 and 1, twice
    asm volatile("" : "+x"(left), "+x"(right));
    vector<float> sum[sums] = {};
    for (int i = 0; i < sums; ++i) asm volatile("" : "+x"(sum[i]));  // keeps the sums distinct
    for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 16
      for (int i = 0; i < sums; ++i) sum[i] = add_dots(sum[i], left, right);
    }
    for (int i = 0; i < sums; ++i) asm volatile("" : : "x"(sum[i]));
  }
};

#if defined(HEADMIX_ISA_HAS_TILES)
/// Products of tiles.
struct TileProducts {
  static constexpr char const* name = "tile products";
  static constexpr double usual = 1500e9;
  static constexpr int sums = 4, steps = 1 << 10;
  static constexpr double flops = 4.0 * sums * steps * 16 * 16 * 16;

  void operator()(Index) const {
    using unit = headmix::cpu_kernels::detail::tile_unit;
    alignas(64) headmix::bfloat16 numbers[16 * 32];
    std::fill_n(numbers, 16 * 32, headmix::bfloat16(0.5f));
    headmix::cpu_kernels::detail::tiles_in_use const tiles;
    headmix::cpu_kernels::detail::tile_block<2, 2>::zero();
    unit::load<4>(numbers, 64);
    unit::load<5>(numbers, 64);
    unit::load<6>(numbers, 64);
    unit::load<7>(numbers, 64);
    for (int step = 0; step < steps; ++step) {
      unit::multiply<0, 4, 6>();
      unit::multiply<1, 4, 7>();
      unit::multiply<2, 5, 6>();
      unit::multiply<3, 5, 7>();
    }
  }
};
#endif

/// Calls f with the kind of headmix's bfloat16 products on this machine.
template <class F>
auto with_bfloat16_products(F f) {
#if defined(HEADMIX_ISA_HAS_TILES)
  if (headmix::cpu_kernels::has_tiles()) return f(TileProducts{});
#endif
  return headmix::cpu_kernels::has_dot_products() ? f(DotProducts{}) : f(MultiplyAdds<float>{});
}

template <class Products>
double rate_of(Products products, Index threads, double seconds) {
  auto const tasks = static_cast<Index>(1 + seconds * Products::usual / Products::flops) * threads;
  double const start = seconds_of_clock(threads);
  pool(threads).parallel_for(tasks, products);
  return Products::flops * static_cast<double>(tasks) / (seconds_of_clock(threads) - start);
}

bool peak_is_of_bfloat16 = false;

constexpr Index product_rows = 1024, product_depth = 512, product_cols = 2048;
constexpr double product_flops = 2.0 * product_rows * product_depth * product_cols;

/// Operands of the product that serves as a ceiling.
struct Product {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  matrix a = matrix::Random(product_rows, product_depth), b = matrix::Random(product_depth, product_cols),
         c = matrix::Zero(product_rows, product_cols);
};
Product& product() {
  static Product p;
  return p;
}

void eigen_product(Index threads) {
  Product& p = product();
  Index const tasks = threads == 1 ? 1 : 2 * threads;  // if a thread is delayed, the other takes its tasks
  pool(threads).parallel_for(tasks, [&](Index i) {
    Index const first = product_rows * i / tasks, last = product_rows * (i + 1) / tasks;
    p.c.middleRows(first, last - first).noalias() = p.a.middleRows(first, last - first) * p.b;
  });
}

/// OpenBLAS, opened at run time, so that building the benchmarks needs no package.
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

  [[nodiscard]] bool usable() const { return usable_; }

  void product(Index threads) {
    Product& p = bench::product();
    constexpr int row_major = 101, plain = 111;
    set_threads_(static_cast<int>(threads));
    sgemm_(row_major, plain, plain, product_rows, product_cols, product_depth, 1, p.a.data(), product_depth, p.b.data(),
           product_cols, 0, p.c.data(), product_cols);
  }

 private:
  template <class F>
  static bool find(void* library, char const* name, F& function) {
    void* const symbol = dlsym(library, name);
    std::memcpy(&function, &symbol, sizeof symbol);  // an object pointer cannot be cast to a function pointer
    return symbol != nullptr;
  }
  static int cpu_bits() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 512;
    if (__builtin_cpu_supports("fma")) return 256;
#endif
    return 128;
  }
  /// Vector bits of a core type's kernels; those of Sandy Bridge and Bulldozer lack multiply-adds and do not count.
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
  openblas();  // its threads inherit the CPUs of this thread, which is tied to a single CPU later
  static std::map<Index, std::unique_ptr<headmix::thread_pool>> pools;
  auto& p = pools[threads];
  if (!p) {
    p = std::make_unique<headmix::thread_pool>(threads);
    if (threads <= cpus()) {
      std::atomic<Index> started{0};
      p->parallel_for(threads, [&](Index) {
        Index const mine = started++;
        while (started < threads) sched_yield();  // so that each thread takes one task
        run_on(mine);
      });
    }
  }
  return *p;
}

double peak(Index threads, double seconds) {
  if (!peak_is_of_bfloat16) return rate_of(MultiplyAdds<float>{}, threads, seconds);
  return with_bfloat16_products([&](auto products) { return rate_of(products, threads, seconds); });
}

Bfloat16Peak::Bfloat16Peak() { peak_is_of_bfloat16 = true; }
Bfloat16Peak::~Bfloat16Peak() { peak_is_of_bfloat16 = false; }

char const* bfloat16_products() {
  return with_bfloat16_products([]<class Products>(Products) { return Products::name; });
}

Ceilings const& ceilings(Index threads) {
  static std::map<Index, Ceilings> known;
  auto const found = known.find(threads);
  if (found != known.end()) return found->second;
  Ceilings& c = known[threads];
  Yardstick const beside = [threads](double seconds) { return rate_of(MultiplyAdds<float>{}, threads, seconds); };
  auto const median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  };
  std::vector<double> peaks;
  /// The rate of `run`, which does `flops`, relative to multiply-adds measured with it.
  auto const share = [&](double flops, auto run, Yardstick const& yardstick) {
    run();
    std::vector<double> shares;
    for (int repetition = 0; repetition < 9; ++repetition) {
      Measured const m = measure(threads, 4, 0.01,
                                 [&](Index n) {
                                   for (Index i = 0; i < n; ++i) run();
                                 },
                                 {yardstick});
      shares.push_back(flops / (m.seconds * m.rates[0]));
      peaks.push_back(m.rates[0]);
    }
    return median(shares);
  };
  Index const tasks = 200 * threads;
  c.fma_double = share(
      MultiplyAdds<double>::flops * static_cast<double>(tasks),
      [&] { pool(threads).parallel_for(tasks, MultiplyAdds<double>{}); }, beside);
  c.bfloat16 = with_bfloat16_products([&]<class Products>(Products products) {
    return share(
        Products::flops * static_cast<double>(tasks), [&] { pool(threads).parallel_for(tasks, products); }, beside);
  });
  c.eigen = share(
      product_flops, [&] { eigen_product(threads); }, beside);
  if (openblas().usable()) {
    c.openblas = share(
        product_flops, [&] { openblas().product(threads); },
        [&](double seconds) {
          if (threads > 1) usleep(50000);  // its threads spin for a while after their work
          return beside(seconds);
        });
    if (threads > 1) usleep(50000);
  }
  c.fma = median(peaks);
  return c;
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

int simd_bits() { return 8 * headmix::cpu_kernels::register_block<float>::bytes; }

}  // namespace bench
