#pragma once
// SPDX-License-Identifier: MIT
// Division by a number that is known on the host at launch, but not to the compiler.

#include <cstdint>

#include "headmix/core/config.hpp"

namespace headmix::cuda_kernels {

/// Exact division of nonnegative integers by a multiplication and a shift.
struct divisor {
  Int n = 1;
  std::uint32_t inverse = std::uint32_t{1} << 31;  // 2^shift / number, rounded up
  int shift = 31;

  divisor() = default;
  /// 0 < number < 2^31
  explicit divisor(Index number) : n(static_cast<Int>(number)) {
    auto const wide = static_cast<std::uint64_t>(number);
    // The inverse is too large by less than 1, which adds less than i / 2^shift < 1 / n to i / n: never a whole unit.
    while (std::uint64_t{1} << (shift - 31) < wide) ++shift;
    inverse = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + wide - 1) / wide);
  }
  friend HEADMIX_HD Int operator/(Int i, divisor d) {
    return static_cast<Int>(std::uint64_t{static_cast<std::uint32_t>(i)} * d.inverse >> d.shift);
  }
};

}  // namespace headmix::cuda_kernels
