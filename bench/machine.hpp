#pragma once
// SPDX-License-Identifier: MIT
// What this machine can do, measured in the same process and moments apart from the rows that are compared with it: the
// clock of a core drifts with its neighbours and its temperature, so a fraction of last minute's peak means little.

#include <string>

#include "headmix/backend/thread_pool.hpp"

namespace bench {

using headmix::Index;

/// CPUs that this process may run on.
[[nodiscard]] Index cpus();

/// A pool of that many threads, the calling one included, each on a CPU of its own when there are enough: a scheduler
/// may leave two threads that live for microseconds on one CPU.
[[nodiscard]] headmix::thread_pool& pool(Index threads);

/// FLOP/s that `threads` threads reach together.
struct Ceilings {
  double fma = 0;         ///< multiply-adds on registers of the widest vector type, float
  double fma_double = 0;  ///< the same in double
  double eigen = 0;       ///< Eigen's float product 1024 x 512 x 2048, rows divided among the threads
  double openblas = 0;    ///< OpenBLAS's, 0 when there is none to compare with

  /// The best float product.
  [[nodiscard]] double product() const { return eigen > openblas ? eigen : openblas; }
};

/// The multiply-adds measured now, the products when their last measurement is older than a second. One thread by CPU
/// time, more by wall clock, as the rows are.
[[nodiscard]] Ceilings const& ceilings(Index threads);

/// What ceilings() knows of OpenBLAS: its core type and build, or why it is left out.
[[nodiscard]] std::string const& openblas_description();

[[nodiscard]] std::string cpu_model();

/// Bits of the widest vector that this program was compiled for.
[[nodiscard]] int simd_bits();

}  // namespace bench
