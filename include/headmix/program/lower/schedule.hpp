#pragma once
// SPDX-License-Identifier: MIT
// The schedule of a program: from its roots, a type list of steps in which operands come first.

#include "headmix/expr/fusion.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// The roots of a program: its result, then losses and observed selections.
template <Expr... R>
struct roots {
  using list = type_list<R...>;
};

namespace detail {
/// The only operand of a view, an output or an alias.
template <Expr E>
using operand_of = first_in<typename E::args>;
}  // namespace detail

/// A let without a buffer: its expression has one of the same kind.
template <class E>
concept Alias = Expr<E> &&(E::form_of == detail::form::let) && (detail::count_of_types<detail::terms<E>>::value == 1) &&
                !Pointwise<detail::first_in<detail::terms<E>>> &&
                (detail::first_in<detail::terms<E>>::kind_of == E::kind_of);

/// True for values that a step of their own writes.
template <class E>
concept Stored = Expr<E> &&(E::form_of == detail::form::kernel || E::form_of == detail::form::output ||
                            (E::form_of == detail::form::let && !Alias<E>));

namespace detail {

/// False for values whose rows may have gaps between them. Leaves are checked when they are bound.
template <class E>
constexpr bool gapless() {
  if constexpr (Alias<E>) {
    return gapless<first_in<terms<E>>>();
  } else if constexpr (E::form_of == form::view) {
    return std::is_base_of_v<ops::reshape, typename E::op>;
  } else if constexpr (Leaf<E>) {
    return !requires { typename E::gradient_of; };
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

/// The source of a view: its operand, or a copy of the operand if a reshape needs rows without gaps.
template <Expr E>
using source_of = typename detail::source<E>::type;
}  // namespace detail

/// A term that its kernel can add to the buffer of the sum.
template <class E>
concept AddsInPlace = Expr<E> &&(E::form_of == detail::form::kernel) && (E::op::accumulates) && (E::op::outputs == 1);

namespace detail {

// Steps followed by those that make E readable element by element (visited), the operands of a kernel readable in the
// form that it takes (operands_visited), or the terms of a sum (terms_visited).

template <form Form>
struct visit;
template <class Steps, class E>
using visited = typename visit<E::form_of>::template after<Steps, E>;

template <bool Stores>
struct visit_operand {
  template <class Steps, class E>
  using after = visited<Steps, E>;
};
template <>
struct visit_operand<true> {
  template <class Steps, class E>
  using after = appended_new<visited<Steps, E>, materialize<E>>;
};
template <bool InMemory, int Count>
struct visit_each {
  template <class Steps, class H, class... T>
  static auto after(type_list<H, T...>*)
      -> decltype(visit_each<InMemory, Count - 1>::template after<
                  typename visit_operand<InMemory && Pointwise<H>>::template after<Steps, H>>(
          detail::pack<type_list<T...>>()));
};
template <bool InMemory>
struct visit_each<InMemory, 0> {
  template <class Steps>
  static Steps* after(type_list<>*);
};
template <class Steps, bool InMemory, class Operands>
using operands_visited = list_of<decltype(visit_each<InMemory, count_of_types<Operands>::value>::template after<Steps>(
    detail::pack<Operands>()))>;

template <bool AddsInPlace>
struct visit_term {
  template <class Steps, class E>
  using after = visited<Steps, E>;
};
template <>
struct visit_term<true> {
  template <class Steps, class E>
  using after = operands_visited<Steps, !E::op::fuses_operands, typename E::args>;
};
template <int Count>
struct visit_each_term {
  template <class Steps, class H, class... T>
  static auto after(type_list<H, T...>*)
      -> decltype(visit_each_term<Count - 1>::template after<
                  typename visit_term<AddsInPlace<H>>::template after<Steps, H>>(detail::pack<type_list<T...>>()));
};
template <>
struct visit_each_term<0> {
  template <class Steps>
  static Steps* after(type_list<>*);
};
template <class Steps, class Terms>
using terms_visited =
    list_of<decltype(visit_each_term<count_of_types<Terms>::value>::template after<Steps>(detail::pack<Terms>()))>;

template <form Form>
struct visit {  // a leaf or a number
  template <class Steps, class>
  using after = Steps;
};
template <>
struct visit<form::pointwise> {
  template <class Steps, class E>
  using after = operands_visited<Steps, false, typename E::args>;
};
template <>
struct visit<form::view> {
  template <class Steps, class E>
  using after = typename visit_operand<Pointwise<source_of<E>>>::template after<Steps, source_of<E>>;
};
template <>
struct visit<form::output> {
  template <class Steps, class E>
  using after = visited<Steps, operand_of<E>>;
};

template <bool IsThere, bool IsAlias>
struct visit_let {
  template <class Steps, class E>
  using after = list_of<decltype(detail::append<materialize<E>>(detail::pack<terms_visited<Steps, terms<E>>>()))>;
};
template <>
struct visit_let<false, true> {
  template <class Steps, class E>
  using after = visited<Steps, first_in<terms<E>>>;
};
template <>
struct visit_let<true, false> {
  template <class Steps, class>
  using after = Steps;
};
template <>
struct visit<form::let> {
  template <class Steps, class E>
  using after =
      typename visit_let<decltype(detail::is_among<materialize<E>>(detail::pack<Steps>()))::value, Alias<E>>::  //
      template after<Steps, E>;
};
template <bool IsThere>
struct visit_kernel {
  template <class Steps, class E>
  using after = list_of<decltype(detail::append<run_kernel<E>>(
      detail::pack<operands_visited<Steps, !E::op::fuses_operands, typename E::args>>()))>;
};
template <>
struct visit_kernel<true> {
  template <class Steps, class>
  using after = Steps;
};
template <>
struct visit<form::kernel> {
  template <class Steps, class E>
  using after = typename visit_kernel<decltype(detail::is_among<run_kernel<E>>(detail::pack<Steps>()))::value>::  //
      template after<Steps, E>;
};

// Nodes followed by those below E.

template <bool IsThere>
struct collect;
template <class Nodes, class E>
using collected = typename collect<decltype(detail::is_among<E>(detail::pack<Nodes>()))::value>::template to<Nodes, E>;
template <int Count>
struct collect_each {
  template <class Nodes, class H, class... T>
  static auto to(type_list<H, T...>*)
      -> decltype(collect_each<Count - 1>::template to<collected<Nodes, H>>(detail::pack<type_list<T...>>()));
};
template <>
struct collect_each<0> {
  template <class Nodes>
  static Nodes* to(type_list<>*);
};
template <class Nodes, class List>
using all_collected =
    list_of<decltype(collect_each<count_of_types<List>::value>::template to<Nodes>(detail::pack<List>()))>;
template <>
struct collect<true> {
  template <class Nodes, class>
  using to = Nodes;
};
template <>
struct collect<false> {
  template <class Nodes, class E>
  using to = list_of<decltype(detail::append<E>(detail::pack<all_collected<Nodes, typename E::args>>()))>;
};

struct is_leaf {
  template <class E>
  static constexpr bool value = Leaf<E>;
};

/// Steps followed by those that store the listed values.
template <class Steps, class List>
using schedule = detail::operands_visited<Steps, true, List>;

/// Every distinct expression below the roots, operands first.
template <class Roots>
using nodes_of = detail::all_collected<type_list<>, typename Roots::list>;
}  // namespace detail

/// The leaves below the roots, in order of first use.
template <class Roots>
using leaves_of = detail::filter<detail::nodes_of<Roots>, detail::is_leaf>;

}  // namespace headmix
