#pragma once
// SPDX-License-Identifier: MIT
// What an expert of a feed-forward mixture is.

#include "headmix/expr/expert.hpp"

namespace headmix {

namespace archetype {
struct expert_count : size<4> {};
struct choices : size<2> {};
/// Any width, so that messages have the numbers of a layer.
struct width : size<dynamic> {};
struct sub_tokens : input<tokens, width> {};
struct gate : input<tokens, choices> {};
struct index : selection<tokens, choices, expert_count> {};
/// What an expert's mixture returns.
template <class X>
using mixture_of = decltype(X::template experts<expert_count, width>::mixture(sub_tokens{}, gate{}, index{}));
}  // namespace archetype

/// An expert has a template `experts<E, D>`: E experts for rows of width D, their parameters and a function
/// `mixture(x, gate, index)`, for x [R, D], gate [R, K] and index Int [R, K]: the sum over the choices of every row of
/// gate times the expert's result, [R, D]. A choice of -1 adds nothing. A second use inside one program needs a tag,
/// `experts<E, D, struct second>`, for its parameters to be others.
template <class X>
concept ExpertPolicy = Expr<archetype::mixture_of<X>> && std::same_as<rows<archetype::mixture_of<X>>, tokens> &&
                       cols<archetype::mixture_of<X>>::value == dynamic;  // as the width is

namespace archetype {
/// The least that an expert is: one matrix.
struct expert {
  template <Extent E, Extent D, class Tag = void>
  struct experts {
    struct W : param<E, D, D> {};
    template <Expr X, Expr G, Selection Chosen>
    static constexpr auto mixture(X x, G gate, Chosen index) {
      return combine(gate, expert_linear(x, W{}, index));
    }
  };
};
}  // namespace archetype
static_assert(ExpertPolicy<archetype::expert>, "headmix: archetype::expert is no ExpertPolicy");

}  // namespace headmix
