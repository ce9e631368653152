#pragma once
// SPDX-License-Identifier: MIT
// How Cpu<float> multiplies: an explicit choice between float and the faster instructions of bfloat16.

#include <concepts>

namespace headmix::products {

/// Operands are floats: the default.
struct exact {
  static constexpr int passes = 0;  ///< of rounded operands, for a product
};
/// Operands of every product, those of routers and of attention included, are rounded to bfloat16, by up to 0.4 %, and
/// products are summed in float: results and gradients of a layer are off by about 0.5 % of their norm. Where the CPU
/// has no instructions for such products that are faster than those of float, they are exact.
struct bfloat16 {
  static constexpr int passes = 1;  ///< of rounded operands, for a product
};
/// Operands are two bfloat16s, the nearest one and the one nearest to the rest, multiplied in three passes: results are
/// off by about 1e-5 of their norm, where float has 3e-7, and an infinite operand gives NaN. Attention is exact. Only
/// tiles (AMX) make three passes faster than float; without them products are exact.
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
