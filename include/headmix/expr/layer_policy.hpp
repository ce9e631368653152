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

namespace detail {
template <class L>
concept has_input = Leaf<typename L::x>;
template <class L>
concept has_result = Expr<std::remove_cvref_t<decltype(L::y)>>;
template <class L>
concept has_losses = requires {
  typename L::losses;
};
template <class L>
concept has_observed = requires {
  typename L::observed;
};
/// Says what a layer lacks.
template <class L>
struct reported_layer : std::false_type {
  static_assert(has_input<L>, "headmix: a layer has no input: write struct x : input<tokens, size<64>> {};");
  static_assert(!has_input<L> || has_result<L>,
                "headmix: a layer has no result: write static constexpr auto y = ..., an expression of x{}");
  static_assert(!has_input<L> || !has_result<L> || has_losses<L>,
                "headmix: a layer has no list of losses: write using losses = type_list<>;");
  static_assert(!has_input<L> || !has_result<L> || !has_losses<L> || has_observed<L>,
                "headmix: a layer has no list of selections that can be observed: write using observed = type_list<>;");
};
}  // namespace detail

/// A layer, as a template takes it for the user: what it lacks is said in words.
template <class L>
concept GivenLayer = LayerPolicy<L> || detail::reported_layer<L>::value;

}  // namespace headmix
