#pragma once
// SPDX-License-Identifier: MIT
// Conversion of tensor elements to another floating-point type or order.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "headmix/core/scalar.hpp"
#include "headmix/io/safetensors.hpp"

namespace headmix::detail {

/// IEEE 754 numbers of 16 bits, for reading only.
struct float16 {
  std::uint16_t bits;

  explicit operator float() const {
    std::uint32_t const sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 0) {
      float const tiny = std::ldexp(static_cast<float>(fraction), -24);
      return sign != 0 ? -tiny : tiny;
    }
    std::uint32_t const wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }
  explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }
};

/// Calls f with the C++ type of a floating-point dtype; returns false for other dtypes.
template <class F>
bool with_floating_point(dtype type, F&& f) {
  switch (type) {
    case dtype::f64:
      f(std::type_identity<double>{});
      return true;
    case dtype::f32:
      f(std::type_identity<float>{});
      return true;
    case dtype::bf16:
      f(std::type_identity<bfloat16>{});
      return true;
    case dtype::f16:
      f(std::type_identity<float16>{});
      return true;
    default:
      return false;
  }
}
[[nodiscard]] inline bool is_floating_point(dtype type) {
  return with_floating_point(type, [](auto) {});
}

/// A matrix among the elements of a tensor: (i, j) is element first + i * row_stride + column[j].
struct element_order {
  Index first, rows, row_stride;
  std::span<Index const> column;
};

template <class To, class From>
[[nodiscard]] To converted(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_arithmetic_v<From> || std::is_arithmetic_v<To>) {
    return static_cast<To>(x);
  } else {
    return To(static_cast<float>(x));
  }
}

/// Writes the elements to consecutive numbers of type To, rounded to nearest. Returns the index of the first non-finite
/// result, or -1.
template <class To, class From>
Index copy_elements(std::byte* to, std::byte const* from, element_order const& o) {
  Index n = 0, bad = -1;
  for (Index i = 0; i < o.rows; ++i) {
    for (Index const j : o.column) {
      From x;
      // Data of a file may be at any address.
      std::memcpy(&x, from + (o.first + i * o.row_stride + j) * static_cast<Index>(sizeof(From)), sizeof(From));
      To const y = converted<To>(x);
      if (bad < 0 && !std::isfinite(static_cast<double>(y))) bad = n;
      std::memcpy(to + n++ * static_cast<Index>(sizeof(To)), &y, sizeof(To));
    }
  }
  return bad;
}
/// copy_elements for dtypes that are known at run time; both are floating-point.
[[nodiscard]] inline Index copy_elements(std::byte* to, dtype to_type, tensor_view const& from,
                                         element_order const& order) {
  Index bad = -1;
  with_floating_point(from.type, [&]<class From>(std::type_identity<From>) {
    with_floating_point(to_type, [&]<class To>(std::type_identity<To>) {
      if constexpr (!std::is_same_v<To, float16>) bad = copy_elements<To, From>(to, from.bytes.data(), order);
    });
  });
  return bad;
}

/// An element as text, for any dtype.
[[nodiscard]] inline std::string element_text(tensor_view const& t, Index at) {
  char text[32] = "";
  with_floating_point(t.type, [&]<class T>(std::type_identity<T>) {
    T x;
    std::memcpy(&x, t.bytes.data() + at * static_cast<Index>(sizeof(T)), sizeof(T));
    std::snprintf(text, sizeof text, "%g", static_cast<double>(x));
  });
  return text;
}

}  // namespace headmix::detail
