#pragma once
// SPDX-License-Identifier: MIT
// Padding ends where a layer begins: valid rows are gathered, the layer works on them alone, and its result is
// scattered back. A padded row costs nothing and gives exactly zero.

#include "headmix/expr/linear.hpp"
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

/// True for a value without its padding: valid rows that were gathered, parts of them, their products with a matrix,
/// and those with a bias.
template <class X>
inline constexpr bool lacks_padding = false;
template <Expr X, Expr Which>
requires is_row_numbers<Which>
inline constexpr bool lacks_padding<node<ops::gather_rows, X, Which>> = true;
template <class Parts, Expr A>
inline constexpr bool lacks_padding<node<ops::split_rows<Parts>, A>> = lacks_padding<A>;
template <kind K, Expr A, Expr W>
inline constexpr bool lacks_padding<node<ops::matmul<K>, A, W>> = lacks_padding<A>;
template <Expr A, Expr B>
inline constexpr bool lacks_padding<node<ops::add, A, B>> = lacks_padding<A>&& is_one_row<B>;

/// with(X): the value with its padding; without(a): the rows of a, a value with padding, that are rows of X.
template <class X>
struct padding_of {
  static constexpr auto with(X x) { return x; }
  template <Expr A>
  static constexpr auto without(A a) {
    return a;
  }
};
template <Expr X, Expr Which>
requires is_row_numbers<Which>
struct padding_of<node<ops::gather_rows, X, Which>> {
  static constexpr auto with(Expr auto) { return X{}; }
  template <Expr A>
  static constexpr auto without(A a) {
    return gather_rows(a, Which{});
  }
};
template <class Parts, Expr X>
requires lacks_padding<X>
struct padding_of<node<ops::split_rows<Parts>, X>> {
  static constexpr auto with(Expr auto) { return split_rows<Parts>(padding_of<X>::with(X{})); }
  template <Expr A>
  static constexpr auto without(A a) {
    return split_rows<Parts>(padding_of<X>::without(merge_rows<Parts>(a)));
  }
};
template <kind K, Expr X, Expr W>
requires lacks_padding<X>
struct padding_of<node<ops::matmul<K>, X, W>> : padding_of<X> {
  static constexpr auto with(Expr auto) { return make<ops::matmul<K>>(padding_of<X>::with(X{}), W{}); }
};
template <Expr X, Expr B>
requires lacks_padding<node<ops::add, X, B>>
struct padding_of<node<ops::add, X, B>> : padding_of<X> {
  static constexpr auto with(Expr auto) { return padding_of<X>::with(X{}) + B{}; }
};
}  // namespace detail

/// The value with its padding, if X is one without it; else X.
template <Expr X>
constexpr auto with_padding(X x) {
  return detail::padding_of<X>::with(x);
}
/// The rows of `a` that are rows of X: the valid ones, where X is a value without its padding.
template <Expr X, Expr A>
constexpr auto without_padding_as(X, A a) {
  return detail::padding_of<X>::without(a);
}

}  // namespace headmix
