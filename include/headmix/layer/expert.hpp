#pragma once
// SPDX-License-Identifier: MIT
// The concept of an expert of a feed-forward mixture.

#include "headmix/expr/expert.hpp"

namespace headmix {

namespace archetype {
struct expert_count : size<4> {};
struct choices : size<2> {};
/// A dynamic width, so that messages print the numbers of a layer.
struct width : size<dynamic> {};
struct sub_tokens : input<tokens, width> {};
struct gate : input<tokens, choices> {};
struct index : selection<tokens, choices, expert_count> {};
/// The type of an expert's mixture.
template <class X>
using mixture_of = decltype(X::template experts<expert_count, width>::mixture(sub_tokens{}, gate{}, index{}));
}  // namespace archetype

/// An expert has a template `experts<E, D>`: E experts for rows of width D, their parameters and a function
/// `mixture(x, gate, index)`, for x [R, D], gate [R, K] and index Int [R, K]: the sum over the choices of every row of
/// gate times the expert's result, [R, D]. A choice of -1 adds nothing. A second use in one program needs a tag,
/// `experts<E, D, struct second>`, to have its own parameters.
template <class X>
concept ExpertPolicy = Expr<archetype::mixture_of<X>> && std::same_as<rows<archetype::mixture_of<X>>, tokens> &&
                       cols<archetype::mixture_of<X>>::value == dynamic;  // dynamic, as the width

namespace detail {
template <class X>
concept has_mixture = Expr<archetype::mixture_of<X>>;
template <class X>
concept has_row_per_token = std::same_as<rows<archetype::mixture_of<X>>, tokens>;

/// The first requirement of ExpertPolicy that a type fails.
enum class expert_fault { none, mixture, rows, width };
template <class X>
constexpr expert_fault fault_of_expert() {
  if constexpr (ExpertPolicy<X>) {
    return expert_fault::none;
  } else if constexpr (!has_mixture<X>) {
    return expert_fault::mixture;
  } else if constexpr (Refused<archetype::mixture_of<X>>) {
    return expert_fault::none;  // the reason is printed
  } else {
    return has_row_per_token<X> ? expert_fault::width : expert_fault::rows;
  }
}
template <class X>
struct reported_expert : std::bool_constant<ExpertPolicy<X>> {
  static constexpr expert_fault found = fault_of_expert<X>();
  static_assert(found != expert_fault::mixture,
                "headmix: an expert has no mixture: write template <Extent E, Extent D, class Tag = void> struct "
                "experts with static constexpr auto mixture(Expr auto x, Expr auto gate, Selection auto index)");
  static_assert(found != expert_fault::rows,
                "headmix: mixture() of an expert has one row for each row of x: return combine(gate, ...) of the rows "
                "of all choices, which sums those of each row of x with their gates");
  static_assert(found != expert_fault::width,
                "headmix: mixture() of an expert has the width of x: its last matrix is param<E, ..., D>");
};
}  // namespace detail

/// ExpertPolicy, as a template takes it from the user: what is wrong is said in words.
template <class X>
concept GivenExpert = detail::reported_expert<X>::value;

namespace archetype {
/// The minimal expert: one matrix.
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
