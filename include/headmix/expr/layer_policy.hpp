#pragma once
// SPDX-License-Identifier: MIT
// The concept of a layer: equations over leaves.

#include <type_traits>

#include "headmix/expr/expr.hpp"

namespace headmix {

/// A layer names its input `x` and its result `y`; further roots are `losses`, [1, 1] each, and `observed` selections.
/// Optional members: a second input `context`, the leaves `valid_rows` and `context_valid_rows` for inputs with
/// padding, and `y_inference`, the result of programs without gradients. The module fills a constant or selection with
/// static extents by its function `element(row, column)`, and one with dynamic extents, known when the module is made,
/// by `element(row, column, columns)`.
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
/// Names the member that a layer lacks.
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

/// A layer, as a template takes it from the user: a missing member is named in words.
template <class L>
concept GivenLayer = LayerPolicy<L> || detail::reported_layer<L>::value;

}  // namespace headmix
