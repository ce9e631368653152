#pragma once
// SPDX-License-Identifier: MIT
// What a layer is: equations over leaves.

#include <type_traits>

#include "headmix/expr/expr.hpp"

namespace headmix {

/// A layer names its input `x` and its result `y`; further roots are `losses`, [1, 1] each, and `observed` selections.
/// It may have a second input `context`, and leaves `valid_rows` and `context_valid_rows` for inputs with padding, and
/// say in `y_inference` how a program without gradients computes y. A constant or selection with static extents that
/// has a function `element(row, column)` is filled by the module, and one of dynamic ones that are known when it is
/// made by `element(row, column, columns)`.
template <class L>
concept LayerPolicy = Leaf<typename L::x> && Expr<std::remove_cvref_t<decltype(L::y)>> && requires {
  typename L::losses;
  typename L::observed;
};

}  // namespace headmix
