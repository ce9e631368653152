#pragma once
// SPDX-License-Identifier: MIT
// From expressions to a program: the list of steps, operands first, that computes a set of roots. A program is a type;
// nothing here runs.

#include "headmix/expr/fusion.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// The values that a program computes: the first is the result, further ones are losses and observed selections.
template <Expr... R>
struct roots {
  using list = type_list<R...>;
};

/// The only operand of a view, an output or an alias.
template <Expr E>
using operand_of = typename detail::first_of<typename E::args>::type;

/// A let that needs no buffer because what it stands for has one, of the same kind.
template <class E>
concept Alias = Expr<E> &&(E::form_of == form::let) && (terms<E>::size == 1) &&
                !Pointwise<typename detail::first_of<terms<E>>::type> &&
                (detail::first_of<terms<E>>::type::kind_of == E::kind_of);

/// True when the value is written by a step of its own.
template <class E>
concept Stored = Expr<E> &&
    (E::form_of == form::barrier || E::form_of == form::output || (E::form_of == form::let && !Alias<E>));

namespace detail {

/// False when the rows of E may have gaps between them. The leaves of a caller are checked when they are bound.
template <class E>
constexpr bool gapless() {
  if constexpr (Alias<E>) {
    return gapless<typename first_of<terms<E>>::type>();
  } else if constexpr (E::form_of == form::view) {
    return std::is_base_of_v<ops::reshape, typename E::op>;
  } else if constexpr (Leaf<E>) {
    return !requires { typename E::seed_of; };
  } else {
    return true;
  }
}
template <class E>
struct source {
  using type = operand_of<E>;
};
template <class E>
requires(std::is_base_of_v<ops::reshape, typename E::op> && !gapless<operand_of<E>>()) struct source<E> {
  using type = node<ops::identity, operand_of<E>>;
};

}  // namespace detail

/// What a view reads: its operand, or a copy of it where a reshape's operand may have gaps between its rows.
template <Expr E>
using source_of = typename detail::source<E>::type;

/// A term that can be added straight into the buffer of its sum.
template <class E>
concept AddsInPlace = Expr<E> &&(E::form_of == form::barrier) && (E::op::accumulates) && (E::op::outputs == 1);

namespace detail {

// Steps with those appended after which E can be read element by element (visited), the operands of a barrier are as it
// takes them, in memory or element by element (visited_operands), or a sum of terms can be formed (visited_terms).
// Classes, not functions: nothing of them reaches the compiler's back end.

template <class Steps, class E, form = E::form_of>
struct visited {
  using type = Steps;  // a leaf or a number
};

template <bool Stores>
struct visited_operand {
  template <class Steps, class E>
  using type = typename visited<Steps, E>::type;
};
template <>
struct visited_operand<true> {
  template <class Steps, class E>
  using type = push_unique<typename visited<Steps, E>::type, store<E>>;
};
template <class Steps, bool InMemory, class Args>
struct visited_operands {
  using type = Steps;
};
template <class Steps, bool InMemory, class H, class... T>
struct visited_operands<Steps, InMemory, type_list<H, T...>>
    : visited_operands<typename visited_operand<InMemory && Pointwise<H>>::template type<Steps, H>, InMemory,
                       type_list<T...>> {};
template <class Steps, class E>
using visited_args = visited_operands<Steps, !E::op::fuses_operands, typename E::args>;

template <class Steps, class E, bool = AddsInPlace<E>>
struct visited_term : visited<Steps, E> {};
template <class Steps, class E>
struct visited_term<Steps, E, true> : visited_args<Steps, E> {};
template <class Steps, class Terms>
struct visited_terms {
  using type = Steps;
};
template <class Steps, class H, class... T>
struct visited_terms<Steps, type_list<H, T...>>
    : visited_terms<typename visited_term<Steps, H>::type, type_list<T...>> {};

template <class Steps, class E>
struct visited<Steps, E, form::pointwise> : visited_operands<Steps, false, typename E::args> {};
template <class Steps, class E>
struct visited<Steps, E, form::view> {
  using type = typename visited_operand<Pointwise<source_of<E>>>::template type<Steps, source_of<E>>;
};
template <class Steps, class E>
struct visited<Steps, E, form::output> : visited<Steps, operand_of<E>> {};
template <class Steps, class E>
struct visited<Steps, E, form::let> : append<typename visited_terms<Steps, terms<E>>::type, store<E>> {};
template <class Steps, Alias E>
struct visited<Steps, E, form::let> : visited<Steps, typename first_of<terms<E>>::type> {};
template <class Steps, class E>
requires contains<Steps, store<E>>
struct visited<Steps, E, form::let> {
  using type = Steps;
};
template <class Steps, class E>
struct visited<Steps, E, form::barrier> : append<typename visited_args<Steps, E>::type, compute<E>> {};
template <class Steps, class E>
requires contains<Steps, compute<E>>
struct visited<Steps, E, form::barrier> {
  using type = Steps;
};

template <class Nodes, class E, bool Done = contains<Nodes, E>>
struct collected {
  using type = Nodes;
};
template <class Nodes, class List>
struct collected_all {
  using type = Nodes;
};
template <class Nodes, class H, class... T>
struct collected_all<Nodes, type_list<H, T...>> : collected_all<typename collected<Nodes, H>::type, type_list<T...>> {};
template <class Nodes, class E>
struct collected<Nodes, E, false> : append<typename collected_all<Nodes, typename E::args>::type, E> {};

struct is_leaf {
  template <class E>
  static constexpr bool value = Leaf<E>;
};

}  // namespace detail

/// Steps followed by those that compute the listed values and put them into memory.
template <class Steps, class List>
using schedule = typename detail::visited_operands<Steps, true, List>::type;

/// Every distinct expression below the roots, operands first.
template <class Roots>
using nodes_of = typename detail::collected_all<type_list<>, typename Roots::list>::type;

/// The leaves among them, in order of first use.
template <class Roots>
using leaves_of = filter<nodes_of<Roots>, detail::is_leaf>;

}  // namespace headmix
