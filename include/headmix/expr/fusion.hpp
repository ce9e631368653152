#pragma once
// SPDX-License-Identifier: MIT
// The steps of a program, and where an operation says that a backend does several of them in one kernel.
//
// A new pattern is one specialization of `fusion`, beside its operation, in a header that expr/fusions.hpp lists:
//
//   template <MyFused Backend, class A, class... T>  // MyFused: see contract/optional_kernels.hpp
//   struct fusion<Backend, type_list<compute<first<A>>, compute<second<first<A>>>, T...>> {
//     using type = fused<ops::both, type_list<first<A>, second<first<A>>>, type_list<>, type_list<A>>;
//     using further = type_list<>;
//     using rest = type_list<T...>;
//   };
//
// ops::both is an operation whose eval() receives the outputs and then the operands; it calls the kernel.

#include "headmix/expr/expr.hpp"

namespace headmix {

/// Step: a barrier writes its buffers.
template <Expr Node>
struct compute {};
/// Step: a pointwise value, a named value or a sum of gradients is written to a buffer of its own.
template <Expr E>
struct store {};
/// Step: the terms of a leaf's gradient are added to the caller's memory.
template <Leaf L, class Terms>
struct sink {};

/// Step: Op writes the values of all Nodes, and those of Further that are read; what it reads are the Operands.
template <class Op, class Nodes, class Further, class Operands>
struct fused {};

/// What a fused step reads of E, element by element: all but the Products, which the step makes.
template <Expr E, class Products>
struct over_products {};

/// How the first steps of a list are done together: `type` is the step, `rest` what is left, and `further` is what the
/// step writes only if it is read. Without a pattern the first step stays as it is.
template <class Backend, class Steps>
struct fusion;
template <class Backend, class H, class... T>
struct fusion<Backend, type_list<H, T...>> {
  using type = H;
  using further = type_list<>;
  using rest = type_list<T...>;
};

namespace detail {

template <class L>
struct first_of;
template <class H, class... T>
struct first_of<type_list<H, T...>> {
  using type = H;
};

/// What a let stands for, as a sum of terms. A gradient (program/gradient.hpp) lists its terms itself.
template <class E>
struct terms_of {
  using type = type_list<E>;
};
template <class E>
requires requires { typename E::init; }
struct terms_of<E> {
  using type = type_list<typename E::init>;
};
template <class E>
requires requires { typename E::terms; }
struct terms_of<E> {
  using type = typename E::terms;
};

/// Whether an element of E is computed of the element of P in the same place.
template <class E, class P>
inline constexpr bool reads_element = std::is_same_v<E, P>;
template <class Op, class... A, class P>
requires(Op::form_of == form::pointwise && !requires { typename Op::repeats; })  //
    inline constexpr bool reads_element<node<Op, A...>, P> = (reads_element<A, P> || ...);

template <class Step>
struct is_not {
  template <class Other>
  static constexpr bool value = !std::is_same_v<Other, Step>;
};

}  // namespace detail

/// The terms that an expression is the sum of.
template <Expr E>
using terms = typename detail::terms_of<E>::type;

}  // namespace headmix
