#pragma once
// SPDX-License-Identifier: MIT
// Padding ends where a layer begins: valid rows are gathered, the layer works on them alone, and its result is
// scattered back. A padded row costs nothing and gives exactly zero.

#include "headmix/expr/select.hpp"

namespace headmix {

/// The leaf with the numbers of the valid rows among all, ascending: Int [valid, 1]. The class Padding makes one.
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

/// The value with its padding, if X is one without it; else X.
template <Expr X>
constexpr auto with_padding(X x) {
  return x;
}
/// All rows, including those that were not gathered.
template <Expr X, Expr Which>
requires(detail::is_row_numbers<Which>) constexpr auto with_padding(detail::node<ops::gather_rows, X, Which>) {
  return X{};
}
/// The rows of `a` that X has: the valid ones, if X is a value without its padding.
template <Expr X, Expr A>
constexpr auto without_padding_as(X, A a) {
  return a;
}
/// The rows of a that were gathered.
template <Expr X, Expr Which, Expr A>
requires(detail::is_row_numbers<Which>) constexpr auto without_padding_as(detail::node<ops::gather_rows, X, Which>,
                                                                          A a) {
  return gather_rows(a, Which{});
}

}  // namespace headmix
