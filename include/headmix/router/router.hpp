#pragma once
// SPDX-License-Identifier: MIT
// What a router is. `route<X>` names, for every row of X, the chosen experts and their weights.

#include "headmix/expr/loss.hpp"

namespace headmix {

namespace archetype {
struct D : size<16> {};
/// A stand-in for the value that a router reads.
struct x : input<tokens, D> {};
}  // namespace archetype

/// A router has sizes `E` (experts) and `K` (chosen per row) and a template `route<X>` with
/// `index`, Int [rows, K], `gate`, [rows, K], and `losses`, a `type_list` of [1, 1] values (often empty).
///
/// Always-on experts are the first columns of `index`. A second use of a router inside one program needs a tag,
/// `route<X, struct second>`, for its parameters to be others.
template <class R>
concept Router = requires {
  requires Extent<typename R::E>;
  requires Extent<typename R::K>;
  requires Selection<std::remove_cvref_t<decltype(R::template route<archetype::x>::index)>>;
  requires Expr<std::remove_cvref_t<decltype(R::template route<archetype::x>::gate)>>;
  typename R::template route<archetype::x>::losses;
  // One weight for each of the K choices.
  requires extents_agree<cols<std::remove_cvref_t<decltype(R::template route<archetype::x>::index)>>::value,
                         R::K::value>;
  requires extents_agree<cols<std::remove_cvref_t<decltype(R::template route<archetype::x>::gate)>>::value,
                         R::K::value>;
};

namespace archetype {
/// The least that a router is.
struct router {
  struct E : size<4> {};
  struct K : size<2> {};
  template <Expr X>
  struct route {
    static constexpr auto index = top_k<K>(X{});
    static constexpr auto gate = take(X{}, index);
    using losses = type_list<>;
  };
};
}  // namespace archetype
static_assert(Router<archetype::router>);

}  // namespace headmix
