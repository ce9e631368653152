#pragma once
// SPDX-License-Identifier: MIT
// What this machine can do, measured in the same process as the rows that are compared with it.

#include <string>

#include "headmix/backend/thread_pool.hpp"

namespace bench {

using headmix::Index;

/// CPUs that this process may run on.
[[nodiscard]] Index cpus();

/// A pool of that many threads, the calling one included, each on a CPU of its own when there are enough: a scheduler
/// may leave two threads that live for microseconds on one CPU.
[[nodiscard]] headmix::thread_pool& pool(Index threads);

/// FLOP/s of multiply-adds in float on registers of the widest vector type, by `threads` threads together, measured now
/// for about so many seconds.
[[nodiscard]] double peak(Index threads, double seconds);

/// While it lives, peak() measures what headmix's products of bfloat16s are made of, in place of multiply-adds in
/// float.
class Bfloat16Peak {
 public:
  Bfloat16Peak();
  ~Bfloat16Peak();
  Bfloat16Peak(Bfloat16Peak const&) = delete;
};

/// What that is in this program on this CPU: "tile products", "dot products" or "multiply-adds of float".
[[nodiscard]] char const* bfloat16_products();

/// What `threads` threads reach together. Others than `fma` are shares of the peak beside them: of all that this
/// machine does they change the least.
struct Ceilings {
  double fma = 0;         ///< the peak in FLOP/s, the median of those measured for the others
  double fma_double = 0;  ///< multiply-adds in double
  double bfloat16 = 0;    ///< what products of bfloat16s are made of; each multiply-add in a dot product counts
  double eigen = 0;       ///< Eigen's float product 1024 x 512 x 2048, rows divided among the threads
  double openblas = 0;    ///< OpenBLAS's, 0 when there is none to compare with

  /// The best float product.
  [[nodiscard]] double product() const { return eigen > openblas ? eigen : openblas; }
};

/// Measured by the first call. One thread by CPU time, more by wall clock, as the rows are.
[[nodiscard]] Ceilings const& ceilings(Index threads);

/// What ceilings() knows of OpenBLAS: its core type and build, or why it is left out.
[[nodiscard]] std::string const& openblas_description();

[[nodiscard]] std::string cpu_model();

/// Bits of the widest vector that this program was compiled for.
[[nodiscard]] int simd_bits();

}  // namespace bench
