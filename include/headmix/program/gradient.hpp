#pragma once
// SPDX-License-Identifier: MIT
// Derived gradients. The gradient of the roots by a node is the sum, over the nodes that read it, of the slots of their
// vjp: again expressions, so that forward and backward are scheduled, fused and planned by the same machinery.
//
// Ownership: gradients of leaves are added (+=) to the caller's memory, which the caller zeroes; the gradients of all
// other values live in the program's workspace and are written anew by every backward pass.

#include <array>

#include "headmix/expr/reduce.hpp"
#include "headmix/program/steps.hpp"

namespace headmix {

// ---- which gradients a program computes: its mode ----

/// Gradients of all parameters and inputs.
struct training {};
/// Forward only; nothing is kept for a backward pass.
struct inference {};
/// Gradients of these leaves and of nothing else: what only other gradients need is not computed.
template <Leaf... L>
struct gradients_by {};

namespace detail {

struct has_gradient {
  template <class E>
  static constexpr bool value = E::grad;
};
template <class Mode, class Leaves>
struct wanted_leaves;
template <class Leaves>
struct wanted_leaves<training, Leaves> {
  using type = filter<Leaves, has_gradient>;
};
template <class Leaves>
struct wanted_leaves<inference, Leaves> {
  using type = type_list<>;
};
template <class... L, class Leaves>
struct wanted_leaves<gradients_by<L...>, Leaves> {
  static_assert((contains<Leaves, L> && ...), "headmix: a gradient is wanted by a leaf that is not in the program");
  using type = type_list<L...>;
};

}  // namespace detail

// ---- how ----

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

namespace detail {
/// Which nodes read which: node i is read by reader[begin[i]] .. reader[end[i] - 1], each once, in the program's order.
template <std::size_t Nodes, std::size_t Edges>
struct reader_table {
  std::array<std::size_t, Nodes + 1> begin{}, end{};
  std::array<int, Edges + 1> reader{};
};
/// Node i reads as many nodes as `operands[i]` says, which follow each other in `edges`.
template <std::size_t Nodes, std::size_t Edges>
constexpr auto readers_of(std::array<int, Nodes> const& operands, std::array<std::size_t, Edges> const& edges) {
  reader_table<Nodes, Edges> table;
  for (std::size_t const read : edges) ++table.begin[read + 1];
  for (std::size_t i = 0; i < Nodes; ++i) table.end[i + 1] = table.begin[i + 1] += table.begin[i];
  std::size_t edge = 0;
  for (std::size_t i = 0; i < Nodes; ++i) {
    for (int n = 0; n < operands[i]; ++n) {
      std::size_t const read = edges[edge++];
      std::size_t& end = table.end[read];
      if (end > table.begin[read] && table.reader[end - 1] == static_cast<int>(i)) continue;
      table.reader[end++] = static_cast<int>(i);
    }
  }
  return table;
}
template <class Nodes, class Edges>
struct readers;
template <class... E, class... A>
struct readers<type_list<E...>, type_list<A...>> {
  static constexpr auto table =
      readers_of<sizeof...(E), sizeof...(A)>({E::args::size...}, {position_in<type_list<E...>, A>::value...});
};
template <class Nodes>
struct edges_of;
template <class... E>
struct edges_of<type_list<E...>> : readers<type_list<E...>, concat<typename E::args...>> {};

}  // namespace detail

/// Which gradients a program computes: those of the roots by the leaves that Mode says.
template <class Roots, class Mode>
struct graph {
  using root_list = typename Roots::list;
  using nodes = nodes_of<Roots>;
  using wanted = typename detail::wanted_leaves<Mode, leaves_of<Roots>>::type;
  /// Which nodes read each node.
  static constexpr auto const& readers = detail::edges_of<nodes>::table;
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

template <class G, class Node>
struct gradient_terms;

/// In what a gradient by E is stored.
template <class E>
inline constexpr kind gradient_kind = E::kind_of;
template <class Op, class... A>
requires(Op::rounds_gradient) inline constexpr kind gradient_kind<node<Op, A...>> = kind::real;
}  // namespace detail

/// The gradient by node `Number` of the graph, which has a buffer. Its name keeps the types of gradients short.
template <class G, int Number>
struct adjoint {
  using of = nth<Number, typename G::nodes>;
  using terms = typename detail::gradient_terms<G, of>::type;
  using args = terms;
  using extents = typename of::extents;
  static constexpr kind kind_of = detail::gradient_kind<of>;
  static constexpr form form_of = form::let;
  static constexpr bool grad = false;
};

namespace detail {

/// The gradient by C as an expression, or none.
template <class G, class C, class Terms = typename gradient_terms<G, C>::type>
struct gradient_by;
template <class G, class C>
struct gradient_by<G, C, type_list<>> {
  using type = none;
};
template <class G, class C, class T, class... Ts>
struct gradient_by<G, C, type_list<T, Ts...>> {
  using type = adjoint<G, position_in<typename G::nodes, C>::value>;
};
template <class G, class C, class T, class... Ts>
requires(Pointwise<C> || C::form_of == form::view) struct gradient_by<G, C, type_list<T, Ts...>> {
  using type = decltype((T{} + ... + Ts{}));
};

/// vjp of consumer C, at which gradient D arrives: `gradients` of its operands, empty when none arrives.
template <class C, class D, form = C::form_of>
struct pulled;
template <class C, form Form>
struct pulled<C, none, Form> {
  using type = gradients<>;
};
template <class C>
struct pulled<C, none, form::let> {
  using type = gradients<>;
};
template <class C, class D>
struct pulled<C, D, form::let> {
  using type = gradients<D>;
};
template <class Op, class... A, class D, form Form>
struct pulled<node<Op, A...>, D, Form> {
  using type = decltype(Op::vjp(D{}, A{}..., node<Op, A...>{}));
  static_assert(type::size == sizeof...(A), "headmix: vjp returns one gradient (or none) for each operand");
};
template <class Op, class... A, form Form>
struct pulled<node<Op, A...>, none, Form> {
  using type = gradients<>;
};
template <class G, class C>
using gradients_from = typename pulled<C, typename gradient_by<G, C>::type>::type;

/// D, summed along the extents in which operand X was broadcast.
template <class X, class D, bool Rows = rows<X>::value == 1 && rows<D>::value != 1,
          bool Cols = cols<X>::value == 1 && cols<D>::value != 1>
struct fitted {
  using type = D;
  static_assert(extents_agree<rows<D>::value, rows<X>::value> && extents_agree<cols<D>::value, cols<X>::value>,
                "headmix: a vjp returned a gradient of other extents than its operand");
};
template <class X, class D, bool Cols>
struct fitted<X, D, true, Cols> : fitted<X, decltype(col_sum(D{}))> {};
template <class X, class D>
struct fitted<X, D, false, true> : fitted<X, decltype(row_sum(D{}))> {};

template <class X, class D, bool Same>
struct slot_for {
  using type = type_list<>;
};
template <class X, class D>
struct slot_for<X, D, true> {
  using type = type_list<typename fitted<X, D>::type>;
};
template <class X>
struct slot_for<X, none, true> {
  using type = type_list<>;
};
template <class X, class Args, class Gradients>
struct slots_for {
  using type = type_list<>;
};
template <class X, class A, class... As, class D, class... Ds>
struct slots_for<X, type_list<A, As...>, gradients<D, Ds...>> {
  using type = concat<typename slot_for<X, D, std::is_same_v<A, X>>::type,
                      typename slot_for<X, Ds, std::is_same_v<As, X>>::type...>;
};

/// What consumer C of X contributes to the gradient by X.
template <class G, class C, class X, bool Active = active<typename G::wanted, C>::value&& C::form_of != form::output>
struct contribution {
  using type = type_list<>;
};
template <class G, class C, class X>
struct contribution<G, C, X, true> : slots_for<X, typename C::args, gradients_from<G, C>> {};

/// For lists that may repeat a type, unlike those of `contains`.
template <class L, class X>
inline constexpr bool is_in = false;
template <class... A, class X>
inline constexpr bool is_in<type_list<A...>, X> = (std::is_same_v<A, X> || ...);

template <class G, class X, class Numbers>
struct contributions;
template <class G, class X, int... Number>
struct contributions<G, X, std::integer_sequence<int, Number...>> {
  static constexpr int node = position_in<typename G::nodes, X>::value;
  template <int K>
  using reader = nth<G::readers.reader[G::readers.begin[node] + K], typename G::nodes>;
  using type = concat<std::conditional_t<is_in<typename G::root_list, X>, type_list<seed<X>>, type_list<>>,
                      typename contribution<G, reader<Number>, X>::type...>;
};
template <class G, class X>
inline constexpr int readers_number = static_cast<int>(G::readers.end[position_in<typename G::nodes, X>::value] -
                                                       G::readers.begin[position_in<typename G::nodes, X>::value]);

template <class G, class X, bool Active = active<typename G::wanted, X>::value>
struct terms_by {
  using type = type_list<>;
};
template <class G, class X>
struct terms_by<G, X, true> : contributions<G, X, std::make_integer_sequence<int, readers_number<G, X>>> {};
template <class G, class X>
struct gradient_terms : terms_by<G, X> {};

template <class Steps, class G, class... L>
struct visited_sinks {
  using type = Steps;
};
template <class Steps, class L, class Terms>
struct visited_sink : append<typename visited_terms<Steps, Terms>::type, sink<L, Terms>> {};
template <class Steps, class L>
struct visited_sink<Steps, L, type_list<>> {
  using type = Steps;
};
template <class Steps, class G, class H, class... T>
struct visited_sinks<Steps, G, H, T...>
    : visited_sinks<typename visited_sink<Steps, H, typename gradient_terms<G, H>::type>::type, G, T...> {};
template <class Steps, class G, class Leaves>
struct scheduled_gradients;
template <class Steps, class G, class... L>
struct scheduled_gradients<Steps, G, type_list<L...>> : visited_sinks<Steps, G, L...> {};

}  // namespace detail

/// The steps of a backward pass after the forward steps: one sink per wanted leaf that the roots depend on. Leaves used
/// last come first, so that a gradient is consumed soon after it was made.
template <class Forward, class G>
using schedule_gradients = typename detail::scheduled_gradients<Forward, G, reverse<typename G::wanted>>::type;

}  // namespace headmix
