#pragma once
// SPDX-License-Identifier: MIT
// The block of a product that stays in registers while the depth runs.

#include "headmix/backend/cpu/simd/simd.hpp"
#include "headmix/backend/cpu/tuning.hpp"
#include "headmix/core/config.hpp"

namespace headmix::cpu::inline HEADMIX_ISA {

/// Extents of the register block for T: `rows` x (`vectors` vectors of `lanes` elements).
template <class T>
struct register_block {
  static constexpr int rows = tuning::block_rows, vectors = tuning::block_vectors;
  static constexpr int bytes = vector_bytes, lanes = bytes / static_cast<int>(sizeof(T));
  static constexpr Index cols = vectors * lanes;
  static constexpr Index depth = tuning::panel_depth;  // of a panel of b
  /// The depth of panels of a product of so much.
  [[nodiscard]] static constexpr Index depth_of(Index whole) {
    return whole > depth ? tuning::deep_panel_depth : depth;
  }
};

}  // namespace headmix::cpu::inline HEADMIX_ISA
