#pragma once
// SPDX-License-Identifier: MIT
// Vectors of the instruction set, for all kernels: `vector<T>` is a register, `simd<T>` 64 bytes of registers, which
// pointwise operations use like a number. Arithmetic is that of the compiler's vector types, with fused multiply-adds
// where the machine has them. exp, log, sqrt, tanh, erf, rounding and reductions are Eigen's functions of packets,
// called for one register at a time. Eigen's arrays are not passed around: their alignment depends on flags, their
// names do not.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "headmix/backend/cpu/simd/eigen.hpp"
#include "headmix/backend/cpu/simd/isa.hpp"
#include "headmix/core/config.hpp"
#include "headmix/core/scalar.hpp"

// clang splits vectors of 64 bytes in two in functions without this attribute.
#if defined(__clang__) && defined(__AVX512F__)
#define HEADMIX_WHOLE_VECTORS __attribute__((__min_vector_width__(512)))
#else
#define HEADMIX_WHOLE_VECTORS
#endif

HEADMIX_QUIET_BOUNDS

namespace headmix::cpu_kernels::inline HEADMIX_ISA {

/// Bytes of a register (vector_bytes) and of a cache line (line_bytes).
#if defined(__AVX512F__)
inline constexpr Index vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr Index vector_bytes = 32;
#else
inline constexpr Index vector_bytes = 16;
#endif
inline constexpr Index line_bytes = 64;

namespace detail {

template <class T, Index Bytes>
struct vector_of {
  typedef T type __attribute__((vector_size(Bytes)));
};
/// A register of T, or fewer bytes.
template <class T, Index Bytes = vector_bytes>
using vector = typename vector_of<T, Bytes>::type;
/// Elements of a register of T.
template <class T>
inline constexpr Index lanes = vector_bytes / static_cast<Index>(sizeof(T));

/// Loads a register from any address.
template <class T>
HEADMIX_WHOLE_VECTORS vector<T> load(T const* from) {
  vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
/// Stores a register to any address.
template <class T>
HEADMIX_WHOLE_VECTORS void store(T* to, vector<T> v) {
  std::memcpy(to, &v, sizeof v);
}

/// Elements Index... of the concatenation of a and b.
template <int... Index, class V>
V shuffle(V const& a, V const& b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, Index...);
#else
  using element = std::remove_cvref_t<decltype(a[0])>;
  using number = std::conditional_t<
      sizeof(element) == 1, signed char,
      std::conditional_t<sizeof(element) == 2, short, std::conditional_t<sizeof(element) == 4, int, long long>>>;
  return __builtin_shuffle(a, b, typename vector_of<number, sizeof(V)>::type{Index...});
#endif
}

/// True if S is narrower than its accumulator type.
template <class S>
inline constexpr bool widens = !std::is_same_v<S, accumulator_t<S>>;

/// Loads numbers of S as a register of T, exactly.
template <class T, class S>
HEADMIX_WHOLE_VECTORS vector<T> load_as(S const* from) {
  if constexpr (std::is_same_v<S, T>) {
    return load(from);
  } else {
    static_assert(std::is_same_v<S, bfloat16> && std::is_same_v<T, float>,
                  "headmix: stored numbers that are no T are bfloat16, and T is float");
    vector<std::uint16_t, vector_bytes / 2> halves;
    std::memcpy(&halves, from, sizeof halves);
    vector<std::uint32_t> const words = __builtin_convertvector(halves, vector<std::uint32_t>) << 16;
    vector<T> v;
    std::memcpy(&v, &words, sizeof v);
    return v;
  }
}
/// Stores a register of T as numbers of S, rounded to nearest even.
template <class S, class T>
HEADMIX_WHOLE_VECTORS void store_as(S* to, vector<T> const& v) {
  if constexpr (std::is_same_v<S, T>) {
    store(to, v);
  } else {
    static_assert(std::is_same_v<S, bfloat16> && std::is_same_v<T, float>,
                  "headmix: stored numbers that are no T are bfloat16, and T is float");
    vector<std::uint32_t> words;
    std::memcpy(&words, &v, sizeof words);
    vector<std::uint32_t> const rounded = (words + 0x7FFFu + (words >> 16 & 1u)) >> 16;
    vector<std::uint32_t> const some = (words & 0x7FFFFFFFu) > 0x7F800000u ? (words >> 16 | 0x40u) : rounded;
    auto const halves = __builtin_convertvector(some, vector<std::uint16_t, vector_bytes / 2>);
    std::memcpy(to, &halves, sizeof halves);
  }
}
/// Copies n numbers to another type, rounded if it is narrower.
template <class To, class From>
HEADMIX_WHOLE_VECTORS void convert_row(To* to, From const* from, Index n) {
  if constexpr (std::is_same_v<To, From>) {
    std::copy_n(from, n, to);
  } else {
    using T = accumulator_t<To>;
    Index const vectors = n / lanes<T>;
    for (Index i = 0; i < vectors; ++i) store_as<To, T>(to + i * lanes<T>, load_as<T>(from + i * lanes<T>));
    for (Index j = vectors * lanes<T>; j < n; ++j) to[j] = static_cast<To>(static_cast<T>(from[j]));
  }
}
/// x in all lanes. x - 0 is x for every x; x + 0 is not for -0.
template <class T>
HEADMIX_WHOLE_VECTORS vector<T> broadcast(T x) {
  return x - vector<T>{};
}

/// Hides the origin of v from the compiler, which with -fassociative-math takes (a + b) - b for a.
template <class V>
inline void opaque(V& v) {
#if defined(__x86_64__) || defined(__i386__)
  asm("" : "+x"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#else
  asm("" : "+m"(v));
#endif
}

/// True if none of n numbers is infinite or NaN: the sum of all numbers times 0 is 0.
template <class T>
[[nodiscard]] HEADMIX_WHOLE_VECTORS bool all_finite(T const* x, Index n) {
  constexpr Index several = 4;  // independent sums
  vector<T> sum[several] = {}, zero{};
  opaque(zero);
  Index j = 0;
  for (; j + several * lanes<T> <= n; j += several * lanes<T>) {
#pragma GCC unroll 4
    for (Index k = 0; k < several; ++k) sum[k] += load(x + j + k * lanes<T>) * zero;
  }
  for (; j + lanes<T> <= n; j += lanes<T>) sum[0] += load(x + j) * zero;
  vector<T> const each = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  T all = 0;
  for (Index i = 0; i < lanes<T>; ++i) all += each[i];
  for (; j < n; ++j) all += x[j] * zero[0];
  return all == T(0);
}

/// True if Eigen has Op for packets of T as large as a register.
template <class Op, class T>
inline constexpr bool has_packets = bool(Eigen::internal::functor_traits<Op>::PacketAccess) &&
                                    sizeof(typename Eigen::internal::packet_traits<T>::type) == vector_bytes;
/// Op, a functor of Eigen, applied lane by lane.
template <class Op, class T, class... V>
HEADMIX_WHOLE_VECTORS vector<T> each_lane(vector<T> const& a, V const&... more) {
  vector<T> y;
  if constexpr (has_packets<Op, T>) {
    using packet = typename Eigen::internal::packet_traits<T>::type;
    auto const packet_of = [](vector<T> const& v) {
      packet p;
      std::memcpy(&p, &v, sizeof p);
      return p;
    };
    packet const result = Op().packetOp(packet_of(a), packet_of(more)...);
    std::memcpy(&y, &result, sizeof y);
  } else {
    for (Index i = 0; i < lanes<T>; ++i) y[i] = Op()(a[i], more[i]...);
  }
  return y;
}
/// The reduction of all lanes by Op.
template <class Op, class T>
HEADMIX_WHOLE_VECTORS T reduce(vector<T> const& a) {
  if constexpr (has_packets<Op, T>) {
    typename Eigen::internal::packet_traits<T>::type p;
    std::memcpy(&p, &a, sizeof p);
    return Op().predux(p);
  } else {
    T lane[lanes<T>];
    std::memcpy(lane, &a, sizeof lane);
    for (Index step = 1; step < lanes<T>; step *= 2)
      for (Index i = 0; i < lanes<T>; i += 2 * step) lane[i] = Op()(lane[i], lane[i + step]);
    return lane[0];
  }
}

/// No strides. As a type of this namespace it puts the instruction set into the names of Eigen's loops.
struct own_stride : Eigen::Stride<0, 0> {};
/// Elements in memory as a column of Eigen.
template <class T>
using array_map = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>, 0, own_stride>;
template <class T>
using const_array_map = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1> const, 0, own_stride>;

}  // namespace detail

/// `Width` numbers in whole registers: the operands of vectorized pointwise operations.
template <class T, Index Width = line_bytes / static_cast<Index>(sizeof(T))>
struct simd {
  static constexpr Index width = Width;
  static constexpr Index lanes = detail::lanes<T>, registers = width / lanes;
  using vector = detail::vector<T>;
  vector part[registers];

  simd() = default;
  HEADMIX_WHOLE_VECTORS explicit simd(double x) {
    each([x](Index) { return detail::broadcast(static_cast<T>(x)); });
  }
  /// Loads numbers of T or of a narrower type.
  template <class S>
  HEADMIX_WHOLE_VECTORS static simd load(S const* from) {
    simd y;
    y.each([from](Index i) { return detail::load_as<T>(from + i * lanes); });
    return y;
  }
  template <class S>
  HEADMIX_WHOLE_VECTORS void store(S* to) const {
#pragma GCC unroll 8
    for (Index i = 0; i < registers; ++i) detail::store_as<S, T>(to + i * lanes, part[i]);
  }
  /// The sum and the maximum of all numbers, by a binary tree over the registers.
  [[nodiscard]] T sum() const { return fold<Eigen::internal::scalar_sum_op<T, T>>(); }
  [[nodiscard]] T largest() const { return fold<Eigen::internal::scalar_max_op<T, T, Eigen::PropagateFast>>(); }

  HEADMIX_WHOLE_VECTORS friend simd operator+(simd const& a, simd const& b) {
    return of([&](Index i) { return vector(a.part[i] + b.part[i]); });
  }
  HEADMIX_WHOLE_VECTORS friend simd operator-(simd const& a, simd const& b) {
    return of([&](Index i) { return vector(a.part[i] - b.part[i]); });
  }
  HEADMIX_WHOLE_VECTORS friend simd operator*(simd const& a, simd const& b) {
    return of([&](Index i) { return vector(a.part[i] * b.part[i]); });
  }
  HEADMIX_WHOLE_VECTORS friend simd operator/(simd const& a, simd const& b) {
    return of([&](Index i) { return vector(a.part[i] / b.part[i]); });
  }
  friend simd operator-(simd const& a) { return a.template call<Eigen::internal::scalar_opposite_op<T>>(); }
  /// Eigen's exp, and exactly 0 for minus infinity, a masked score, where Eigen's is a small number.
  HEADMIX_WHOLE_VECTORS friend simd exp(simd const& a) {
    return of([&](Index i) {
      vector const x = a.part[i], y = detail::each_lane<Eigen::internal::scalar_exp_op<T>, T>(x);
      return vector(x == detail::broadcast(-std::numeric_limits<T>::infinity()) ? vector{} : y);
    });
  }
  friend simd log(simd const& a) { return a.template call<Eigen::internal::scalar_log_op<T>>(); }
  friend simd sqrt(simd const& a) { return a.template call<Eigen::internal::scalar_sqrt_op<T>>(); }
  friend simd tanh(simd const& a) { return a.template call<Eigen::internal::scalar_tanh_op<T>>(); }
  friend simd erf(simd const& a) { return a.template call<Eigen::internal::scalar_erf_op<T>>(); }
  friend simd abs(simd const& a) { return a.template call<Eigen::internal::scalar_abs_op<T>>(); }
  friend simd rint(simd const& a) { return a.template call<Eigen::internal::scalar_rint_op<T>>(); }
  friend simd maximum(simd const& a, simd const& b) {
    return a.template call<Eigen::internal::scalar_max_op<T, T, Eigen::PropagateFast>>(b);
  }
  /// The larger number, a where b is NaN. maximum() of a number and NaN is either, by instruction set.
  HEADMIX_WHOLE_VECTORS friend simd larger_number(simd const& a, simd const& b) {
    return of([&](Index i) { return vector(b.part[i] > a.part[i] ? b.part[i] : a.part[i]); });
  }
  friend simd minimum(simd const& a, simd const& b) {
    return a.template call<Eigen::internal::scalar_min_op<T, T, Eigen::PropagateFast>>(b);
  }
  HEADMIX_WHOLE_VECTORS friend simd unit_step(simd const& a) {
    return of([&](Index i) { return vector(a.part[i] > vector{} ? detail::broadcast(T(1)) : vector{}); });
  }
  // A pointwise operation that compares numbers must have: static constexpr bool vectorizable = false;
  friend bool operator<=>(simd const&, simd const&) = delete;  // say: static constexpr bool vectorizable = false;
  friend bool operator==(simd const&, simd const&) = delete;   // say: static constexpr bool vectorizable = false;

 private:
  template <class F>
  HEADMIX_WHOLE_VECTORS void each(F f) {
#pragma GCC unroll 8
    for (Index i = 0; i < registers; ++i) part[i] = f(i);
  }
  template <class F>
  HEADMIX_WHOLE_VECTORS static simd of(F f) {
    simd y;
    y.each(f);
    return y;
  }
  template <class Op, class... A>
  HEADMIX_WHOLE_VECTORS simd call(A const&... more) const {
    return of([&](Index i) { return detail::each_lane<Op, T>(part[i], more.part[i]...); });
  }
  template <class Op>
  HEADMIX_WHOLE_VECTORS T fold() const {
    vector y[registers];
#pragma GCC unroll 8
    for (Index i = 0; i < registers; ++i) y[i] = part[i];
#pragma GCC unroll 3
    for (Index step = 1; step < registers; step *= 2)
#pragma GCC unroll 4
      for (Index i = 0; i < registers; i += 2 * step) y[i] = detail::each_lane<Op, T>(y[i], y[i + step]);
    return detail::reduce<Op, T>(y[0]);
  }
};

}  // namespace headmix::cpu_kernels::inline HEADMIX_ISA

HEADMIX_END_QUIET_BOUNDS
