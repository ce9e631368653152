#pragma once
// SPDX-License-Identifier: MIT
// Plain numbers in equations, 2.0 * x{}, are refused: numbers in equations are types, number<2>{}.

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

/// A C++ number, which is no expression.
template <class Number>
concept PlainNumber = !__is_class(Number) && std::is_arithmetic_v<Number>;

/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator+(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator+(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator-(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator-(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator*(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator*(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator/(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, number<n, d>{}.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator/(A, Number) {
  return {};
}

}  // namespace headmix
