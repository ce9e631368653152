#pragma once
// SPDX-License-Identifier: MIT
// The steps of a program, and the patterns of steps that a backend fuses into one kernel.
//
// A new pattern is one specialization of `fusion` in headmix::detail, in a header that expr/fusions.hpp lists:
//
//   template <MyFused Backend, class A, class... T>  // MyFused: see contract/optional_kernels.hpp
//   inline constexpr fused_as<fused<ops::both, type_list<first<A>, second<first<A>>>, type_list<>, type_list<A>>,
//                          type_list<>, type_list<T...>>
//       fusion<Backend, type_list<run_kernel<first<A>>, run_kernel<second<first<A>>>, T...>>{};
//
// ops::both is an operation whose eval() receives the outputs and then the operands; it calls the kernel.

#include <cstddef>

#include "headmix/expr/expr.hpp"

namespace headmix {

namespace detail {
/// Step: a kernel writes its buffers.
template <Expr Node>
struct run_kernel {};
/// Step: a pointwise value, a named value or a sum of gradients is written to a buffer of its own.
template <Expr E>
struct materialize {};
/// Step: the terms of the gradient of a leaf are added to memory of the caller.
template <Leaf L, class Terms>
struct accumulate_gradient {};

/// Step: Op reads the Operands and writes the values of all Nodes, and those values of Further that are read.
template <class Op, class Nodes, class Further, class Operands>
struct fused {};
}  // namespace detail

/// Operand of a fused step: the pointwise tree E, read element by element, over the Products that the step computes.
template <Expr E, class Products>
struct over_products {};

namespace detail {

/// The first steps of a list are fused into `Step`, which writes the values `Further` only if they are read; the steps
/// `Rest` remain. This is a pointer to a class without a definition: lists of steps are long, see core/type_list.hpp.
template <class Step, class Further, class Rest>
struct fused_head;
/// The type of a pattern's `fusion`.
template <class Step, class Further, class Rest>
using fused_as = fused_head<Step, Further, Rest> const*;

/// The fusion of the first steps of a list: `fused_as`, or nothing if no pattern matches.
template <class Backend, class Steps>
inline constexpr std::nullptr_t fusion{};

/// The expression of a let as a sum of terms. A gradient (program/lower/gradient.hpp) lists its terms itself.
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

/// True if an element of E is computed from the element of P in the same place.
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

/// The terms of a sum; any other expression is one term.
template <Expr E>
using terms = typename detail::terms_of<E>::type;
}  // namespace detail

}  // namespace headmix
