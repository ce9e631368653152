#pragma once
// SPDX-License-Identifier: MIT
// Derived gradients. The gradient of the roots by a node is the sum, over the nodes that read it, of the slots of their
// vjp: again expressions, so that forward and backward are scheduled, fused and planned by the same machinery.
//
// Ownership: gradients of leaves are added (+=) to the caller's memory, which the caller zeroes; the gradients of all
// other values live in the tape's workspace and are written anew by every backward pass.

#include "headmix/expr/reduce.hpp"
#include "headmix/tape/program.hpp"

namespace headmix {

/// The gradient of the scalar objective with respect to root R: the caller gives it.
template <Expr R>
struct seed {
  using seed_of = R;
  using args = type_list<>;
  using extents = typename R::extents;
  static constexpr kind kind_of = R::kind_of;
  static constexpr form form_of = form::leaf;
  static constexpr bool grad = false;
};

/// Which gradients a program computes: `Wanted` lists the leaves.
template <class Roots, class Wanted>
struct graph {
  using root_list = typename Roots::list;
  using nodes = nodes_of<Roots>;
  using wanted = Wanted;
};

namespace detail {
template <class Wanted, class E>
struct active;
template <class Wanted, class L>
struct any_active;
template <class Wanted, class... A>
struct any_active<Wanted, type_list<A...>> : std::bool_constant<(active<Wanted, A>::value || ...)> {};
/// True when a wanted leaf is reached from E along a differentiable path.
template <class Wanted, class E>
struct active : std::bool_constant<E::grad && any_active<Wanted, typename E::args>::value> {};
template <class Wanted, Leaf L>
struct active<Wanted, L> : std::bool_constant<contains<Wanted, L>> {};

template <class G, class N>
struct gradient_terms;
}  // namespace detail

/// The gradient by a value that has a buffer. Its name keeps the types of gradients short.
template <class G, Expr N>
struct adjoint {
  using terms = typename detail::gradient_terms<G, N>::type;
  using args = terms;
  using extents = typename N::extents;
  static constexpr kind kind_of = N::kind_of;
  static constexpr form form_of = form::let;
  static constexpr bool grad = false;
};

namespace detail {

template <class A>
constexpr auto sum_of(type_list<A>) {
  return A{};
}
template <class A, class B, class... C>
constexpr auto sum_of(type_list<A, B, C...>) {
  return sum_of(type_list<decltype(A{} + B{}), C...>{});
}

/// The gradient by C as an expression, or none.
template <class G, class C>
constexpr auto gradient_of() {
  using list = typename gradient_terms<G, C>::type;
  if constexpr (list::size == 0) {
    return none{};
  } else if constexpr (Pointwise<C> || C::form_of == form::view) {
    return sum_of(list{});
  } else {
    return adjoint<G, C>{};
  }
}

template <class C, class D, class... A>
constexpr auto call_vjp(type_list<A...>) {
  using slots = decltype(C::op::vjp(D{}, A{}..., C{}));
  static_assert(slots::size == sizeof...(A), "headmix: vjp returns one gradient (or none) for each operand");
  return slots{};
}

/// vjp of consumer C: `gradients` of its operands, empty when no gradient arrives at C.
template <class G, class C>
constexpr auto pull() {
  using D = decltype(gradient_of<G, C>());
  if constexpr (std::same_as<D, none>) {
    return gradients<>{};
  } else if constexpr (C::form_of == form::let) {
    return gradients<D>{};
  } else {
    return call_vjp<C, D>(typename C::args{});
  }
}

/// Summed along the extents in which the operand was broadcast.
template <class X, class D>
constexpr auto fit(D d) {
  if constexpr (std::same_as<D, none>) {
    return d;
  } else if constexpr (rows<X>::value == 1 && rows<D>::value != 1) {
    return fit<X>(col_sum(d));
  } else if constexpr (cols<X>::value == 1 && cols<D>::value != 1) {
    return row_sum(d);
  } else {
    return d;
  }
}

template <class N, class... T>
constexpr auto matching(type_list<>, gradients<>, type_list<T...>) {
  return type_list<T...>{};
}
template <class N, class A, class... As, class D, class... Ds, class... T>
constexpr auto matching(type_list<A, As...>, gradients<D, Ds...>, type_list<T...>) {
  if constexpr (std::same_as<A, N> && !std::same_as<D, none>) {
    using term = decltype(fit<N>(D{}));
    static_assert(extents_agree<rows<term>::value, rows<N>::value> && extents_agree<cols<term>::value, cols<N>::value>,
                  "headmix: a vjp returned a gradient of other extents than its operand");
    return matching<N>(type_list<As...>{}, gradients<Ds...>{}, type_list<T..., term>{});
  } else {
    return matching<N>(type_list<As...>{}, gradients<Ds...>{}, type_list<T...>{});
  }
}

template <class L, class N>
inline constexpr bool reads = false;
template <class... A, class N>
inline constexpr bool reads<type_list<A...>, N> = (std::same_as<A, N> || ...);

/// What consumer C contributes to the gradient by N.
template <class G, class C, class N>
constexpr auto contribution() {
  if constexpr (!active<typename G::wanted, C>::value || C::form_of == form::leaf || C::form_of == form::immediate ||
                C::form_of == form::output) {
    return type_list<>{};
  } else if constexpr (!reads<typename C::args, N>) {
    return type_list<>{};
  } else {
    using slots = decltype(pull<G, C>());
    if constexpr (std::same_as<slots, gradients<>>) {
      return type_list<>{};
    } else {
      return matching<N>(typename C::args{}, slots{}, type_list<>{});
    }
  }
}

template <class G, class N, class... C>
constexpr auto all_contributions(type_list<C...>) {
  return concat<decltype(contribution<G, C, N>())...>{};
}

template <class G, class N>
constexpr auto terms_for() {
  if constexpr (!active<typename G::wanted, N>::value) {
    return type_list<>{};
  } else {
    using read = decltype(all_contributions<G, N>(typename G::nodes{}));
    if constexpr (reads<typename G::root_list, N>) {
      return concat<type_list<seed<N>>, read>{};
    } else {
      return read{};
    }
  }
}

template <class G, class N>
struct gradient_terms {
  using type = decltype(terms_for<G, N>());
};

template <class Steps, class G>
constexpr auto visit_sinks(type_list<>) {
  return Steps{};
}
template <class Steps, class G, class H, class... T>
constexpr auto visit_sinks(type_list<H, T...>) {
  using list = typename gradient_terms<G, H>::type;
  if constexpr (list::size == 0) {
    return visit_sinks<Steps, G>(type_list<T...>{});
  } else {
    return visit_sinks<push_unique<decltype(visit_terms<Steps>(list{})), sink<H, list>>, G>(type_list<T...>{});
  }
}

}  // namespace detail

/// The steps of a backward pass after the forward steps: one sink per wanted leaf that the roots depend on. Leaves used
/// last come first, so that a gradient is consumed soon after it was made.
template <class Forward, class G>
using schedule_gradients = decltype(detail::visit_sinks<Forward, G>(reverse<typename G::wanted>{}));

}  // namespace headmix
