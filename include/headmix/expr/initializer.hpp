#pragma once
// SPDX-License-Identifier: MIT
// Initial values of parameters. A rule gives element i of a matrix of `rows` x `cols` (of each expert, for a stack).

#include <cmath>

#include "headmix/core/config.hpp"
#include "headmix/core/random.hpp"

namespace headmix {

/// U(-a, a) with a = gain sqrt(6 / (fan_in + fan_out)), gain^2 = Num / Den (Glorot & Bengio 2010).
template <int Num = 1, int Den = 1>
struct xavier_uniform {
  static double value(Random const& random, std::uint64_t i, Index rows, Index cols) {
    double const a = std::sqrt(6.0 * Num / Den / static_cast<double>(rows + cols));
    return a * (2 * random.uniform(i) - 1);
  }
};

/// U(-a, a) with a = 1 / sqrt(fan_in): the common start of linear layers.
struct fan_in_uniform {
  static double value(Random const& random, std::uint64_t i, Index rows, Index) {
    return (2 * random.uniform(i) - 1) / std::sqrt(static_cast<double>(rows));
  }
};

/// N(0, sigma^2) with sigma = Num / Den.
template <int Num, int Den>
struct normal {
  static double value(Random const& random, std::uint64_t i, Index, Index) { return Num * random.normal(i) / Den; }
};

/// The number `Value` everywhere.
template <int Value>
struct filled {
  static double value(Random const&, std::uint64_t, Index, Index) { return Value; }
};
/// All 0.
using zeros = filled<0>;
/// All 1.
using ones = filled<1>;

}  // namespace headmix
