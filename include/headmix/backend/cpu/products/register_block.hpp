#pragma once
// SPDX-License-Identifier: MIT
// The block of c that the micro-kernel keeps in registers.

#include "headmix/backend/cpu/simd/simd.hpp"
#include "headmix/backend/cpu/tuning.hpp"
#include "headmix/core/config.hpp"

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// The register block for T: mr x nr numbers of c, nr in `vectors` registers of `lanes` numbers. Panels of b have kc
/// rows.
template <class T>
struct register_block {
  static constexpr int mr = tuning::mr, vectors = tuning::nr_vectors;
  static constexpr int bytes = vector_bytes, lanes = bytes / static_cast<int>(sizeof(T));
  static constexpr Index nr = vectors * lanes, kc = tuning::kc;
  /// kc of a product of this depth.
  [[nodiscard]] static constexpr Index kc_of(Index depth) { return depth > kc ? tuning::deep_kc : kc; }
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA
