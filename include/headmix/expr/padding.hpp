#pragma once
// SPDX-License-Identifier: MIT
// Padding ends where a layer begins: the valid rows are gathered, everything inside works on them alone, and the
// result is scattered back, so that a padded row costs nothing and gives exactly zero.

#include "headmix/expr/select.hpp"

namespace headmix {

/// The leaf that numbers the valid rows, ascending, among all: Int [valid, 1]. See the class Padding for making one.
template <Extent Real, Extent All>
struct row_numbers : selection<Real, size<1>, All> {};

namespace detail {
template <class Which>
inline constexpr bool is_row_numbers = false;
template <class Which>
requires requires { typename Which::domain; }
inline constexpr bool is_row_numbers<Which> =
    std::is_base_of_v<row_numbers<rows<Which>, typename Which::domain>, Which>;
}  // namespace detail

/// The value with its padding, where X is one without it; X itself otherwise.
template <Expr X>
constexpr auto with_padding(X x) {
  return x;
}
/// All rows, of which the given ones were gathered.
template <Expr X, Expr Which>
requires(detail::is_row_numbers<Which>) constexpr auto with_padding(node<ops::gather_rows, X, Which>) { return X{}; }
/// The rows of `a` that are rows of X: the valid ones, where X is a value without its padding.
template <Expr X, Expr A>
constexpr auto without_padding_as(X, A a) {
  return a;
}
/// The rows of a that were gathered.
template <Expr X, Expr Which, Expr A>
requires(detail::is_row_numbers<Which>) constexpr auto without_padding_as(node<ops::gather_rows, X, Which>, A a) {
  return gather_rows(a, Which{});
}

}  // namespace headmix
