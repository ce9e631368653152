#pragma once
// SPDX-License-Identifier: MIT
// Extents as data: formulas of the dynamic sizes of a program.

#include <vector>

#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/core/view.hpp"
#include "headmix/expr/extent.hpp"

namespace headmix::detail {

/// Fails unless `parts` divides `whole`.
constexpr void check_divides(Index whole, Index parts) {
  if (1 > parts || whole % parts != 0) fail(whole, " cannot be divided into ", parts, " equal parts");
}

/// A number, a size of the program, or an operation on two other formulas.
struct formula {
  enum class op { number, size, product, quotient, sum, difference };
  op what = op::number;
  Index value = 0;  ///< the number, or the index of the size
  char const* name_source = nullptr;
  formula const* a = nullptr;
  formula const* b = nullptr;
};

/// The value of a formula of sizes[i]. A quotient with a remainder is rounded down, or fails if `exact`; programs check
/// quotients when memory is bound, with better messages.
constexpr Index evaluate(formula const& f, Index const* sizes, bool exact = false) {
  switch (f.what) {
    case formula::op::number:
      return f.value;
    case formula::op::size:
      return sizes[f.value];
    case formula::op::product:
      return (checked(evaluate(*f.a, sizes, exact)) * evaluate(*f.b, sizes, exact)).value;
    case formula::op::sum:
      return (checked(evaluate(*f.a, sizes, exact)) + evaluate(*f.b, sizes, exact)).value;
    case formula::op::difference:
      return (checked(evaluate(*f.a, sizes, exact)) - evaluate(*f.b, sizes, exact)).value;
    case formula::op::quotient:
      break;
  }
  Index const whole = evaluate(*f.a, sizes, exact), parts = evaluate(*f.b, sizes, exact);
  if (exact) check_divides(whole, parts);
  return parts == 0 ? 0 : whole / parts;
}

/// A size in the formula whose value is not known yet, or null.
inline formula const* unknown_size(formula const& f, Index const* sizes) {
  if (f.what == formula::op::size) return sizes[f.value] == dynamic ? &f : nullptr;
  if (f.what == formula::op::number) return nullptr;
  formula const* const below = unknown_size(*f.a, sizes);
  return below != nullptr ? below : unknown_size(*f.b, sizes);
}

template <class Sizes, class X>
inline constexpr formula formula_of = {formula::op::size, position_in<Sizes, X>::value, name_source<X>()};
template <class Sizes, Index Number>
inline constexpr formula formula_of<Sizes, size<Number>> = {formula::op::number, Number};

template <class Sizes, class X>
inline constexpr formula const* formula_for = &formula_of<Sizes, unnamed<X>>;

template <class Sizes, class A, class B>
inline constexpr formula formula_of<Sizes, product<A, B>> = {formula::op::product, 0, name_source<product<A, B>>(),
                                                             formula_for<Sizes, A>, formula_for<Sizes, B>};
template <class Sizes, class A, class B>
inline constexpr formula formula_of<Sizes, quotient<A, B>> = {formula::op::quotient, 0, name_source<quotient<A, B>>(),
                                                              formula_for<Sizes, A>, formula_for<Sizes, B>};
template <class Sizes, class A, class B>
inline constexpr formula formula_of<Sizes, extent_sum<A, B>> = {formula::op::sum, 0, name_source<extent_sum<A, B>>(),
                                                                formula_for<Sizes, A>, formula_for<Sizes, B>};
template <class Sizes, class A, class B>
inline constexpr formula formula_of<Sizes, extent_difference<A, B>> = {
    formula::op::difference, 0, name_source<extent_difference<A, B>>(), formula_for<Sizes, A>, formula_for<Sizes, B>};
template <class Sizes, class A>
inline constexpr formula formula_of<Sizes, plus_one<A>> = {formula::op::sum, 0, name_source<plus_one<A>>(),
                                                           formula_for<Sizes, A>, formula_for<Sizes, size<1>>};

/// True if the formula contains size number `size`.
inline bool mentions(formula const& f, Index size) {
  if (f.what == formula::op::size) return f.value == size;
  return f.what != formula::op::number && (mentions(*f.a, size) || mentions(*f.b, size));
}

/// A size that follows from others when a program runs on several ranks.
struct size_rule {
  enum class op { share, before, over_ranks, received };
  op what;
  Index size;         ///< which one
  formula const* of;  ///< the divided size, the terms of a sum, or the most rows that can be received
};

/// Count, rows and columns of a value.
struct shape_formula {
  formula const* extent[3];
};
template <class Sizes, class Shape>
inline constexpr shape_formula shape_formula_of = {{formula_for<Sizes, typename Shape::count>,
                                                    formula_for<Sizes, typename Shape::rows>,
                                                    formula_for<Sizes, typename Shape::cols>}};

/// The values of the sizes of a program, and its sequences.
struct bound_sizes {
  std::vector<Index> value;
  segments tokens{nullptr, 0, 0}, context{nullptr, 0, 0};  // count 0: not given
};

/// Extent X of a program whose dynamic sizes are the list Sizes.
template <class Sizes, class X>
Index extent_in(bound_sizes const& sizes) {
  if constexpr (X::value != dynamic) {
    return X::value;
  } else if constexpr (contains<Sizes, X>) {
    return sizes.value[position_in<Sizes, X>::value];
  } else {
    return evaluate(formula_of<Sizes, X>, sizes.value.data());
  }
}
/// The sequences of the rows counted by X; one sequence unless bound.
template <class Sizes, class X>
segments segments_in(bound_sizes const& sizes) {
  if constexpr (is_multiple_of<X, headmix::tokens>) {
    return sizes.tokens.count > 0 ? sizes.tokens : uniform(1, extent_in<Sizes, headmix::tokens>(sizes));
  } else if constexpr (is_multiple_of<X, context_tokens>) {
    return sizes.context.count > 0 ? sizes.context : uniform(1, extent_in<Sizes, context_tokens>(sizes));
  } else {
    return uniform(1, extent_in<Sizes, X>(sizes));
  }
}

}  // namespace headmix::detail
