#pragma once
// SPDX-License-Identifier: MIT
// pack<T>: 64 bytes of numbers that pointwise operations treat like one number. Arithmetic and functions are Eigen's
// vectorised ones, whatever instruction set the compiler was given.

#include <limits>

#include "headmix/backend/cpu/eigen.hpp"
#include "headmix/core/config.hpp"

namespace headmix::cpu {

template <class T>
struct pack {
  static constexpr Index width = 64 / static_cast<Index>(sizeof(T));
  using array = Eigen::Array<T, static_cast<int>(width), 1>;
  array v;

  explicit pack(array const& a) : v(a) {}
  explicit pack(double x) : v(array::Constant(static_cast<T>(x))) {}
  static pack load(T const* p) { return pack(array(Eigen::Map<array const>(p))); }
  void store(T* p) const { Eigen::Map<array>{p} = v; }
  [[nodiscard]] T sum() const { return v.sum(); }

  friend pack operator+(pack const& a, pack const& b) { return pack(array(a.v + b.v)); }
  friend pack operator-(pack const& a, pack const& b) { return pack(array(a.v - b.v)); }
  friend pack operator*(pack const& a, pack const& b) { return pack(array(a.v * b.v)); }
  friend pack operator/(pack const& a, pack const& b) { return pack(array(a.v / b.v)); }
  friend pack operator-(pack const& a) { return pack(array(-a.v)); }
  /// Eigen's exp of minus infinity is a small number; a masked score must be nothing.
  friend pack exp(pack const& a) {
    array e = a.v.exp();
    for (int i = 0; i < e.size(); ++i) e[i] = a.v[i] == -std::numeric_limits<T>::infinity() ? T(0) : e[i];
    return pack(e);
  }
  friend pack log(pack const& a) { return pack(array(a.v.log())); }
  friend pack sqrt(pack const& a) { return pack(array(a.v.sqrt())); }
  friend pack tanh(pack const& a) { return pack(array(a.v.tanh())); }
  friend pack erf(pack const& a) { return pack(array(Eigen::erf(a.v))); }
  friend pack maximum(pack const& a, pack const& b) { return pack(array((a.v.max)(b.v))); }
  friend pack unit_step(pack const& a) { return pack(array((a.v > T(0)).template cast<T>())); }
};

}  // namespace headmix::cpu
