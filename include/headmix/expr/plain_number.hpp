#pragma once
// SPDX-License-Identifier: MIT
// Numbers in equations are types: 2.5_n * x{}. Plain numbers, 2.5 * x{}, are refused.

#include <type_traits>

#include "headmix/expr/leaf.hpp"

namespace headmix {

namespace detail {
/// A decimal literal as a reduced fraction; a denominator of 0 where it is none, or has too many digits.
struct decimal {
  long long numerator, denominator;
};
template <char... Digits>
constexpr decimal decimal_of() {
  constexpr long long most = 1LL << 53, most_power = 1'000'000'000'000'000'000;  // exact in double
  constexpr decimal none = {0, 0};
  constexpr char text[] = {Digits..., '\0'};
  char const* at = text;
  if (at[0] == '0' && at[1] != '.' && at[1] != 'e' && at[1] != 'E' && at[1] != '\0') return none;  // octal, 0x, 0b
  long long n = 0, power = 1;
  int zeros = 0, exponent = 0;
  bool fraction = false;
  for (; *at != '\0' && *at != 'e' && *at != 'E'; ++at) {
    if (*at == '\'') continue;
    if (*at == '.') {
      fraction = true;
      continue;
    }
    if (*at < '0' || *at > '9') return none;
    exponent -= fraction ? 1 : 0;
    if (*at == '0') {  // zeros at the end count no digits
      ++zeros;
      continue;
    }
    for (; zeros > 0 && n > 0; --zeros) {
      if (n > most / 10) return none;
      n *= 10;
    }
    zeros = 0;
    if (n > most / 10) return none;
    n = 10 * n + (*at - '0');
  }
  exponent += zeros;
  if (*at != '\0') {
    bool const negative = at[1] == '-';
    int e = 0;
    for (at += at[1] == '-' || at[1] == '+' ? 2 : 1; *at != '\0'; ++at) {
      if (*at == '\'') continue;
      if (*at < '0' || *at > '9' || e > 1000) return none;
      e = 10 * e + (*at - '0');
    }
    exponent += negative ? -e : e;
  }
  if (n == 0) return {0, 1};
  for (; exponent > 0; --exponent) {
    if (n > most / 10) return none;
    n *= 10;
  }
  for (; exponent < 0; ++exponent) {
    if (power == most_power) return none;
    power *= 10;
  }
  long long divisor = n;  // the greatest common one; no std::gcd: <numeric> does not compile behind a macro `min`
  for (long long rest = power; rest != 0;) {
    long long const next = divisor % rest;
    divisor = rest, rest = next;
  }
  return {n / divisor, power / divisor};
}

template <class Number>
inline constexpr bool is_expression = false;
template <class Number>
constexpr bool say_number() {
  static_assert(is_expression<Number>,
                "headmix: a number in an equation is a type: write 2_n for 2 and 2.5_n for 2.5 (using namespace "
                "headmix::literals), or number<5, 2>{}");
  return true;
}
/// An operation of an expression and a plain number.
template <class Number>
struct refused_number : refused {
  using said = std::bool_constant<say_number<Number>()>;
};
}  // namespace detail

inline namespace literals {
/// A number as an expression: `2.5_n * x{}`, `1_n - x{}`; 2.5_n is number<5, 2>{}. The literal is decimal, of at most
/// 15 digits, and its value is that of the double 2.5.
template <char... Digits>
constexpr auto operator""_n() {
  constexpr detail::decimal d = detail::decimal_of<Digits...>();
  static_assert(d.denominator > 0,
                "headmix: a number in an equation is decimal, with at most 15 digits and 18 places behind the point; "
                "for others write number<n, d>{}");
  return number<d.numerator, (d.denominator > 0 ? d.denominator : 1)>{};
}
}  // namespace literals

/// A negative number, -2.5_n.
template <long long Num, long long Den>
constexpr number<-Num, Den> operator-(number<Num, Den>) {
  return {};
}

/// A C++ number, which is no expression.
template <class Number>
concept PlainNumber = !__is_class(Number) && std::is_arithmetic_v<Number>;

/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator+(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator+(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator-(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator-(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator*(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator*(A, Number) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator/(Number, A) {
  return {};
}
/// Refused: a number in an equation is a type, 2.5_n.
template <PlainNumber Number, Expr A>
constexpr detail::refused_number<Number> operator/(A, Number) {
  return {};
}

}  // namespace headmix
