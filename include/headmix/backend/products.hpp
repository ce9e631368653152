#pragma once
// SPDX-License-Identifier: MIT
// The precision of the products of Cpu<float>: float, or the faster instructions of bfloat16.

#include <concepts>

namespace headmix::products {

/// Operands are floats: the default.
struct exact {
  static constexpr int passes = 0;  ///< of rounded operands, for a product
};
/// Operands of every product, also of routers and attention, are rounded to bfloat16, by up to 0.4 %; sums are floats.
/// The error of a layer's results and gradients is about 0.5 % of their norm. Products are exact on CPUs without faster
/// instructions for bfloat16 than for float.
struct bfloat16 {
  static constexpr int passes = 1;  ///< of rounded operands, for a product
};
/// Operands are sums of two bfloat16s, the nearest one and the one nearest to the rest, multiplied in three passes: the
/// error of results is about 1e-5 of their norm (float: 3e-7), and an infinite operand gives NaN. Attention is exact.
/// Products are exact on CPUs without tiles (AMX), where three passes are not faster than float.
struct bfloat16_x3 {
  static constexpr int passes = 3;  ///< of rounded operands, for a product
};

}  // namespace headmix::products

namespace headmix {

/// One of the choices in headmix::products.
template <class P>
concept ProductPrecision =
    std::same_as<P, products::exact> || std::same_as<P, products::bfloat16> || std::same_as<P, products::bfloat16_x3>;

}  // namespace headmix
