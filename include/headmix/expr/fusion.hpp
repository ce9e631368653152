#pragma once
// SPDX-License-Identifier: MIT
// The steps of a program, and where an operation says that a backend does several of them in one kernel.
//
// A new pattern is one specialization of `fusion`, beside its operation, in a header that expr/fusions.hpp lists:
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

/// Step: a kernel writes its buffers.
template <Expr Node>
struct run_kernel {};
/// Step: a pointwise value, a named value or a sum of gradients is written to a buffer of its own.
template <Expr E>
struct materialize {};
/// Step: the terms of a leaf's gradient are added to the caller's memory.
template <Leaf L, class Terms>
struct accumulate_gradient {};

/// Step: Op writes the values of all Nodes, and those of Further that are read; what it reads are the Operands.
template <class Op, class Nodes, class Further, class Operands>
struct fused {};

/// What a fused step reads of E, element by element: all but the Products, which the step makes.
template <Expr E, class Products>
struct over_products {};

/// The first steps of a list are done as `Step`, which writes the values `Further` only if they are read; the steps
/// `Rest` are left. A pointer to a class without a definition: lists of steps are long, see core/type_list.hpp.
template <class Step, class Further, class Rest>
struct fused_head;
/// The type of a pattern's `fusion`.
template <class Step, class Further, class Rest>
using fused_as = fused_head<Step, Further, Rest> const*;

/// How the first steps of the list are done together: `fused_as`, or nothing where no pattern begins with them.
template <class Backend, class Steps>
inline constexpr std::nullptr_t fusion{};

namespace detail {

/// What a let stands for, as a sum of terms. A gradient (program/lower/gradient.hpp) lists its terms itself.
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
