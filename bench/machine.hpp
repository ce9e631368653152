#pragma once
// SPDX-License-Identifier: MIT
// Ceilings of this machine, measured in the same process as the rows that are compared with them.

#include <string>

#include "headmix/backend/thread_pool.hpp"

namespace bench {

using headmix::Index;

/// CPUs that this process may run on.
[[nodiscard]] Index cpus();

/// A pool of this many threads, including the caller, each tied to its own CPU if there are enough: a scheduler may
/// leave two threads that live for microseconds on one CPU.
[[nodiscard]] headmix::thread_pool& pool(Index threads);

/// FLOP/s of float multiply-adds on registers of the widest vector type, by `threads` threads together, measured now
/// for about this number of seconds.
[[nodiscard]] double peak(Index threads, double seconds);

/// During its lifetime peak() measures the instructions of headmix's bfloat16 products instead of float multiply-adds.
class Bfloat16Peak {
 public:
  Bfloat16Peak();
  ~Bfloat16Peak();
  Bfloat16Peak(Bfloat16Peak const&) = delete;
};

/// The instructions of bfloat16 products in this program on this CPU: "tile products", "dot products" or "multiply-adds
/// of float".
[[nodiscard]] char const* bfloat16_products();

/// Rates of `threads` threads together. All but `fma` are shares of the peak, measured in between, since the ratio
/// varies least on this machine.
struct Ceilings {
  double fma = 0;         ///< the peak in FLOP/s, the median over the other measurements
  double fma_double = 0;  ///< multiply-adds in double
  double bfloat16 = 0;    ///< instructions of bfloat16 products; each multiply-add in a dot product counts
  double eigen = 0;       ///< Eigen's float product 1024 x 512 x 2048, rows divided among the threads
  double openblas = 0;    ///< OpenBLAS's float product, 0 without OpenBLAS

  /// The larger of both products.
  [[nodiscard]] double product() const { return eigen > openblas ? eigen : openblas; }
};

/// Measured by the first call, by CPU time for one thread and by wall clock for more, as for rows.
[[nodiscard]] Ceilings const& ceilings(Index threads);

/// OpenBLAS's core type and build, or the reason why it is left out.
[[nodiscard]] std::string const& openblas_description();

[[nodiscard]] std::string cpu_model();

/// Bits of the widest vectors of this program's instruction set.
[[nodiscard]] int simd_bits();

}  // namespace bench
