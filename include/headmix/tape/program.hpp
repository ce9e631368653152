#pragma once
// SPDX-License-Identifier: MIT
// From expressions to a program: the list of steps, operands first, that computes a set of roots. A program is a type;
// nothing here runs.

#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// The values that a program computes: the first is the result, further ones are losses and observed selections.
template <Expr... R>
struct roots {
  using list = type_list<R...>;
};

/// Step: a barrier writes its buffers.
template <Expr N>
struct compute {};
/// Step: a pointwise value, a named value or a sum of gradients is written to a buffer of its own.
template <Expr E>
struct store {};
/// Step: the terms of a leaf's gradient are added to the caller's memory.
template <Leaf L, class Terms>
struct sink {};

namespace detail {

template <class L>
struct first_of;
template <class H, class... T>
struct first_of<type_list<H, T...>> {
  using type = H;
};

/// What a let stands for, as a sum of terms. A gradient (tape/gradient.hpp) lists its terms itself.
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

}  // namespace detail

/// The only operand of a view, an output or an alias.
template <Expr E>
using operand_of = typename detail::first_of<typename E::args>::type;

template <Expr E>
using terms = typename detail::terms_of<E>::type;

/// A let that needs no buffer because what it stands for has one.
template <class E>
concept Alias =
    Expr<E> && (E::form_of == form::let) && (terms<E>::size == 1) &&
    !Pointwise<typename detail::first_of<terms<E>>::type>;

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
constexpr auto source() {
  using A = operand_of<E>;
  if constexpr (std::is_base_of_v<ops::reshape, typename E::op> && !gapless<A>()) {
    return std::type_identity<node<ops::identity, A>>{};
  } else {
    return std::type_identity<A>{};
  }
}

}  // namespace detail

/// What a view reads: its operand, or a copy of it where a reshape's operand may have gaps between its rows.
template <Expr E>
using source_of = typename decltype(detail::source<E>())::type;

/// A term that can be added straight into the buffer of its sum.
template <class E>
concept AddsInPlace = Expr<E> && (E::form_of == form::barrier) && (E::op::accumulates) && (E::op::outputs == 1);

namespace detail {

template <class Steps, class E>
constexpr auto visit();
template <class Steps, class E>
constexpr auto visit_operand();

template <class Steps>
constexpr auto visit_all(type_list<>) {
  return Steps{};
}
template <class Steps, class H, class... T>
constexpr auto visit_all(type_list<H, T...>) {
  return visit_all<decltype(visit<Steps, H>())>(type_list<T...>{});
}
template <class Steps>
constexpr auto visit_operands(type_list<>) {
  return Steps{};
}
template <class Steps, class H, class... T>
constexpr auto visit_operands(type_list<H, T...>) {
  return visit_operands<decltype(visit_operand<Steps, H>())>(type_list<T...>{});
}
template <class Steps, class N>
constexpr auto visit_operands_of() {
  if constexpr (N::op::fuses_operands) {
    return visit_all<Steps>(typename N::args{});
  } else {
    return visit_operands<Steps>(typename N::args{});
  }
}
/// The steps before a sum of terms can be formed.
template <class Steps>
constexpr auto visit_terms(type_list<>) {
  return Steps{};
}
template <class Steps, class H, class... T>
constexpr auto visit_terms(type_list<H, T...>) {
  if constexpr (AddsInPlace<H>) {
    return visit_terms<decltype(visit_operands_of<Steps, H>())>(type_list<T...>{});
  } else {
    return visit_terms<decltype(visit<Steps, H>())>(type_list<T...>{});
  }
}

/// The steps after which E can be read element by element, appended to Steps.
template <class Steps, class E>
constexpr auto visit() {
  if constexpr (E::form_of == form::leaf || E::form_of == form::immediate) {
    return Steps{};
  } else if constexpr (E::form_of == form::pointwise) {
    return visit_all<Steps>(typename E::args{});
  } else if constexpr (E::form_of == form::view) {
    return visit_operand<Steps, source_of<E>>();
  } else if constexpr (E::form_of == form::output) {
    return visit<Steps, operand_of<E>>();
  } else if constexpr (Alias<E>) {
    return visit<Steps, typename first_of<terms<E>>::type>();
  } else if constexpr (E::form_of == form::let) {
    if constexpr (contains<Steps, store<E>>) {
      return Steps{};
    } else {
      return push_unique<decltype(visit_terms<Steps>(terms<E>{})), store<E>>{};
    }
  } else {
    if constexpr (contains<Steps, compute<E>>) {
      return Steps{};
    } else {
      return push_unique<decltype(visit_operands_of<Steps, E>()), compute<E>>{};
    }
  }
}

/// The steps after which E lies in memory, appended to Steps.
template <class Steps, class E>
constexpr auto visit_operand() {
  if constexpr (Pointwise<E>) {
    return push_unique<decltype(visit<Steps, E>()), store<E>>{};
  } else {
    return visit<Steps, E>();
  }
}

template <class Nodes, class E>
constexpr auto collect();
template <class Nodes>
constexpr auto collect_all(type_list<>) {
  return Nodes{};
}
template <class Nodes, class H, class... T>
constexpr auto collect_all(type_list<H, T...>) {
  return collect_all<decltype(collect<Nodes, H>())>(type_list<T...>{});
}
template <class Nodes, class E>
constexpr auto collect() {
  if constexpr (contains<Nodes, E>) {
    return Nodes{};
  } else {
    return push_unique<decltype(collect_all<Nodes>(typename E::args{})), E>{};
  }
}

template <class Keep>
constexpr auto filter(type_list<>, Keep) {
  return type_list<>{};
}
template <class Keep, class H, class... T>
constexpr auto filter(type_list<H, T...>, Keep keep) {
  using rest = decltype(filter(type_list<T...>{}, keep));
  if constexpr (Keep::template value<H>) {
    return concat<type_list<H>, rest>{};
  } else {
    return rest{};
  }
}

struct is_leaf {
  template <class E>
  static constexpr bool value = Leaf<E>;
};

}  // namespace detail

/// Steps followed by those that compute the listed values and put them into memory.
template <class Steps, class List>
using schedule = decltype(detail::visit_operands<Steps>(List{}));

/// Every distinct expression below the roots, operands first.
template <class Roots>
using nodes_of = decltype(detail::collect_all<type_list<>>(typename Roots::list{}));

/// The leaves among them, in order of first use.
template <class Roots>
using leaves_of = decltype(detail::filter(nodes_of<Roots>{}, detail::is_leaf{}));

}  // namespace headmix
