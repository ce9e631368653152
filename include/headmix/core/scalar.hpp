#pragma once
// SPDX-License-Identifier: MIT
// Which type a value is stored in and which type it is computed in.

#include <type_traits>

#include "headmix/core/config.hpp"

namespace headmix {

/// The upper half of a float: its range with 8 bits of precision. For storage only, so it has no arithmetic: convert to
/// float, compute, convert back (to the nearest, ties to even). The same bits as the types of CUDA, Eigen and PyTorch.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  template <class T>
  requires std::is_arithmetic_v<T> HEADMIX_HD explicit constexpr bfloat16(T number) : bits(0) {
    auto const word = __builtin_bit_cast(std::uint32_t, static_cast<float>(number));
    bool const is_nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
    bits = is_nan ? static_cast<std::uint16_t>(word >> 16 | 0x40u)  // stays one, whichever bits it has
                  : static_cast<std::uint16_t>((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
  }
  template <class T>
  requires std::is_floating_point_v<T> HEADMIX_HD explicit constexpr operator T() const {
    return static_cast<T>(__builtin_bit_cast(float, std::uint32_t{bits} << 16));
  }
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) { return static_cast<float>(a) == static_cast<float>(b); }
};

/// How a value is stored: `real` in the backend's Scalar, `wide` in at least float (router arithmetic, statistics),
/// `integer` in Int (selections).
enum class kind { real, accumulator, integer };

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

template <kind K, class Scalar>
using storage_t = std::conditional_t<K == kind::integer, Int,
                                     std::conditional_t<K == kind::accumulator, accumulator_t<Scalar>, Scalar>>;

}  // namespace headmix
