#pragma once
// SPDX-License-Identifier: MIT
// Storage types and the types of computation for them.

#include <concepts>
#include <type_traits>

#include "headmix/core/config.hpp"

namespace headmix {

/// The upper half of a float: its range with 8 bits of precision. For storage only, so it has no arithmetic: convert to
/// float, compute, convert back (to the nearest, ties to even). The same bits as the types of CUDA, Eigen and PyTorch.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  /// Rounded to nearest, ties to even.
  template <class T>
  requires std::is_arithmetic_v<T> HEADMIX_HD explicit constexpr bfloat16(T number) : bits(0) {
    auto const word = __builtin_bit_cast(std::uint32_t, static_cast<float>(number));
    bool const is_nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
    bits = is_nan ? static_cast<std::uint16_t>(word >> 16 | 0x40u)  // stays NaN, whichever bits it has
                  : static_cast<std::uint16_t>((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
  }
  /// Exact.
  template <class T>
  requires std::is_floating_point_v<T> HEADMIX_HD explicit constexpr operator T() const {
    return static_cast<T>(__builtin_bit_cast(float, std::uint32_t{bits} << 16));
  }
  /// Compares numbers.
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) { return static_cast<float>(a) == static_cast<float>(b); }
};

/// Packing of 16-bit storage types, two in a 32-bit word, the first in the low half. Another 16-bit type needs a
/// specialization; its products on tensor cores also need a matrix instruction (mma_m16n8k16 of backend/cuda/sm80.cuh and
/// testing/emulated.hpp), and dense products a blas_type (backend/cuda/blas.cuh).
template <class T>
struct word_half {};
template <>
struct word_half<bfloat16> {
  /// Rounds both numbers.
  [[nodiscard]] static HEADMIX_HD std::uint32_t pack(float low, float high) {
#ifdef __CUDA_ARCH__
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return std::uint32_t{bfloat16(low).bits} | std::uint32_t{bfloat16(high).bits} << 16;
#endif
  }
  /// The number in the low half, first in memory.
  [[nodiscard]] static HEADMIX_HD float low(std::uint32_t both) { return __builtin_bit_cast(float, both << 16); }
  /// The number in the high half.
  [[nodiscard]] static HEADMIX_HD float high(std::uint32_t both) {
    return __builtin_bit_cast(float, both & 0xFFFF0000u);
  }
};
/// A storage type of 16 bits.
template <class T>
concept Half = requires(float x) {
  { word_half<T>::pack(x, x) } -> std::same_as<std::uint32_t>;
};

/// The number of terms that a sum adds sequentially in the accumulator type. Longer sums are divided into blocks of
/// this length, which are added in double: the error of a float sum is that of a block, whatever the number of terms.
inline constexpr int block_terms = 256;

/// Storage kinds: `real` is stored in the backend's Scalar, `wide` in at least float (router arithmetic, statistics),
/// `integer` in Int (selections).
enum class kind { real, accumulator, integer };

/// The type of sums over T.
template <class T>
struct accumulator_of {
  using type = float;
};
template <>
struct accumulator_of<double> {
  using type = double;
};
/// The type in which a storage type is accumulated: double for double, float for everything narrower.
template <class T>
using accumulator_t = typename accumulator_of<std::remove_const_t<T>>::type;

/// The memory type of a kind.
template <kind K, class Scalar>
using storage_t = std::conditional_t<K == kind::integer, Int,
                                     std::conditional_t<K == kind::accumulator, accumulator_t<Scalar>, Scalar>>;

}  // namespace headmix
