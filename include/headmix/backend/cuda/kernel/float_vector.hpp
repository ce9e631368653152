#pragma once
// SPDX-License-Identifier: MIT
// Register vectors with the operators of numbers, like those of cpu/simd/simd.hpp. Global memory is accessed 16
// bytes at a time. Loops that the host also compiles have no unroll pragma: host compilers do not know it.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/core/math.hpp"
#include "headmix/core/scalar.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Storage types of a float_vector.
template <class T>
concept VectorStorage = std::is_same_v<T, float> || Half<T>;

/// Eight floats.
struct float_vector {
  static constexpr int width = 8;
  /// Alignment in memory, in bytes: one access.
  static constexpr std::size_t alignment = 16;
  float v[width];

  /// The numbers in their storage format.
  template <VectorStorage T>
  struct packed {
    static constexpr int per_part = 16 / static_cast<int>(sizeof(T)), parts = width / per_part;
    words<4> part[parts];
  };

  float_vector() = default;
  /// Broadcast of a number.
  template <class S>
  requires std::is_arithmetic_v<S> HEADMIX_HD explicit float_vector(S x) {
    for (int i = 0; i < width; ++i) v[i] = static_cast<float>(x);
  }
  template <VectorStorage T>
  HEADMIX_HD explicit float_vector(packed<T> const& from) {
    if constexpr (Half<T>) {
      for (int i = 0; i < width / 2; ++i) {
        v[2 * i] = word_half<T>::low(from.part[0].word[i]);
        v[2 * i + 1] = word_half<T>::high(from.part[0].word[i]);
      }
    } else {
      for (int i = 0; i < width; ++i) v[i] = __builtin_bit_cast(float, from.part[i / 4].word[i % 4]);
    }
  }
  /// Loads from read-only memory.
  template <VectorStorage T>
  [[nodiscard]] static HEADMIX_HD packed<T> read(T const* p) {
    packed<T> from;
    for (int i = 0; i < packed<T>::parts; ++i) from.part[i] = read16(p + i * packed<T>::per_part);
    return from;
  }
  template <VectorStorage T>
  [[nodiscard]] static HEADMIX_HD float_vector load(T const* p) {
    return float_vector(read(p));
  }
  /// Loads from memory that the launch writes.
  template <class Device, VectorStorage T>
  [[nodiscard]] static HEADMIX_DEVICE packed<T> read(Device& device, T const* p) {
    packed<T> from;
    HEADMIX_UNROLL
    for (int i = 0; i < packed<T>::parts; ++i) from.part[i] = device.load16(p + i * packed<T>::per_part);
    return from;
  }
  /// The numbers in the storage format of T, rounded.
  template <VectorStorage T>
  [[nodiscard]] HEADMIX_HD packed<T> packed_as() const {
    packed<T> to;
    if constexpr (Half<T>) {
      for (int i = 0; i < width / 2; ++i) to.part[0].word[i] = word_half<T>::pack(v[2 * i], v[2 * i + 1]);
    } else {
      for (int i = 0; i < width; ++i) to.part[i / 4].word[i % 4] = __builtin_bit_cast(std::uint32_t, v[i]);
    }
    return to;
  }
  template <class Device, VectorStorage T>
  HEADMIX_DEVICE void store(Device& device, T* p) const {
    packed<T> const to = packed_as<T>();
    HEADMIX_UNROLL
    for (int i = 0; i < packed<T>::parts; ++i) device.store16(p + i * packed<T>::per_part, to.part[i]);
  }
  /// The sum of all numbers.
  [[nodiscard]] HEADMIX_HD float sum() const {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }

  friend HEADMIX_HD float_vector operator+(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend HEADMIX_HD float_vector operator-(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend HEADMIX_HD float_vector operator*(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend HEADMIX_HD float_vector operator/(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return a.v[i] / b.v[i]; });
  }
  friend HEADMIX_HD float_vector operator-(float_vector const& a) {
    return of([&](int i) { return -a.v[i]; });
  }
  friend HEADMIX_HD float_vector exp(float_vector const& a) {
    return of([&](int i) { return std::exp(a.v[i]); });
  }
  /// Error of some units in the last place, 25 for a = -20: exact rounding would take several times as many
  /// instructions.
  friend HEADMIX_HD float_vector logistic(float_vector const& a) {
    return of([&](int i) { return fast_logistic(a.v[i]); });
  }
  friend HEADMIX_HD float_vector log(float_vector const& a) {
    return of([&](int i) { return std::log(a.v[i]); });
  }
  friend HEADMIX_HD float_vector sqrt(float_vector const& a) {
    return of([&](int i) { return std::sqrt(a.v[i]); });
  }
  friend HEADMIX_HD float_vector tanh(float_vector const& a) {
    return of([&](int i) { return std::tanh(a.v[i]); });
  }
  friend HEADMIX_HD float_vector erf(float_vector const& a) {
    return of([&](int i) { return std::erf(a.v[i]); });
  }
  friend HEADMIX_HD float_vector abs(float_vector const& a) {
    return of([&](int i) { return std::fabs(a.v[i]); });
  }
  friend HEADMIX_HD float_vector rint(float_vector const& a) {
    return of([&](int i) { return std::rint(a.v[i]); });
  }
  friend HEADMIX_HD float_vector maximum(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return headmix::maximum(a.v[i], b.v[i]); });
  }
  friend HEADMIX_HD float_vector minimum(float_vector const& a, float_vector const& b) {
    return of([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend HEADMIX_HD float_vector unit_step(float_vector const& a) {
    return of([&](int i) { return headmix::unit_step(a.v[i]); });
  }
  // A pointwise operation with comparisons works on single numbers only.
  friend bool operator<=>(float_vector const&, float_vector const&) = delete;  // say: vectorizable = false
  friend bool operator==(float_vector const&, float_vector const&) = delete;   // say: vectorizable = false

 private:
  template <class F>
  static HEADMIX_HD float_vector of(F const& f) {
    float_vector y;
    for (int i = 0; i < width; ++i) y.v[i] = f(i);
    return y;
  }
  static HEADMIX_HD float fast_logistic(float a) {
#ifdef __CUDA_ARCH__
    return __fdividef(1, 1 + __expf(-a));
#else
    return 1 / (1 + std::exp(-a));
#endif
  }
  template <class T>
  static HEADMIX_HD words<4> read16(T const* p) {
#ifdef __CUDA_ARCH__
    uint4 const value = *reinterpret_cast<uint4 const*>(p);
    return {{value.x, value.y, value.z, value.w}};
#else
    words<4> value;
    std::memcpy(&value, __builtin_assume_aligned(p, 16), 16);
    return value;
#endif
  }
};

/// True if a tree, computed in W, can be computed as float_vectors, given suitable strides.
template <class W, class Tree>
inline constexpr bool has_vectors = false;
template <class Tree>
requires(Tree::vectorizable) inline constexpr bool has_vectors<float, Tree> = true;

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
