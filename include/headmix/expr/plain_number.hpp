#pragma once
// SPDX-License-Identifier: MIT
// Plain numbers in equations, 2.0 * x{}, are refused: numbers there are types, number<2>{}.

#include <type_traits>

#include "headmix/expr/expr.hpp"

namespace headmix {

namespace detail {
template <class Number>
inline constexpr bool is_expression = false;
template <class Number>
constexpr bool say_number() {
  static_assert(is_expression<Number>,
                "headmix: a number in an equation is a type: number<2>{} instead of 2, number<1, 2>{} instead of 0.5");
  return true;
}
/// An operation of an expression and a plain number.
template <class Number>
struct refused_number : refused {
  using said = std::bool_constant<say_number<Number>()>;
};
}  // namespace detail

/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator+(Number, A) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator+(A, Number) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator-(Number, A) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator-(A, Number) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator*(Number, A) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator*(A, Number) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator/(Number, A) { return {}; }
/// Refused.
template <class Number, Expr A>
requires std::is_arithmetic_v<Number>
constexpr detail::refused_number<Number> operator/(A, Number) { return {}; }

}  // namespace headmix
