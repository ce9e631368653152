#pragma once
// SPDX-License-Identifier: MIT
// Gradients as expressions. The gradient by a node is the sum, over the nodes that read it, of the slots of their vjp.
// Backward passes are scheduled, fused and planned like forward passes.
//
// Gradients of leaves are added (+=) to memory of the caller, who zeroes it. Gradients of all other values lie in the
// workspace; every backward pass overwrites them.

#include <array>

#include "headmix/expr/reduce.hpp"
#include "headmix/program/lower/schedule.hpp"

namespace headmix {

// ---- which gradients a program computes: its mode ----

/// Gradients of all parameters and inputs.
struct training {};
/// Forward only; nothing is kept for a backward pass.
struct inference {};
/// Gradients of these leaves alone; values that only other gradients need are not computed.
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

namespace detail {
/// The gradient of the objective by root R, an argument of backward().
template <Expr R>
struct output_gradient {
  using gradient_of = R;
  using args = type_list<>;
  using extents = typename R::extents;
  static constexpr kind kind_of = R::kind_of;
  static constexpr form form_of = form::leaf;
  static constexpr bool grad = false;
};

/// The readers of each node: reader[begin[i]] .. reader[end[i] - 1] read node i, in the program's order.
template <std::size_t Nodes, std::size_t Edges>
struct reader_table {
  std::array<std::size_t, Nodes + 1> begin{}, end{};
  std::array<int, Edges + 1> reader{};
};
/// @param operands  by node: the number of its operands, which follow each other in `edges`
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
/// By node: true if a differentiable path leads to a wanted leaf.
template <std::size_t Nodes, std::size_t Edges>
constexpr auto active_nodes(std::array<int, Nodes> const& operands, std::array<std::size_t, Edges> const& edges,
                            std::array<bool, Nodes> const& differentiable, std::array<bool, Nodes> const& wanted) {
  std::array<bool, Nodes> active = wanted;
  std::size_t edge = 0;
  for (std::size_t i = 0; i < Nodes; ++i) {
    for (int n = 0; n < operands[i]; ++n) {
      bool const reaches = active[edges[edge++]];
      active[i] = active[i] || (differentiable[i] && reaches);
    }
  }
  return active;
}

/// The graph of a program: roots, and the leaves of Mode by which gradients are computed.
template <class Roots, class Mode>
struct graph {
  using roots = Roots;
  using mode = Mode;
  using nodes = nodes_of<Roots>;
};

template <class G>
using nodes_in = typename G::nodes;
/// The leaves by which a program computes gradients.
template <class G>
using wanted_in = typename wanted_leaves<typename G::mode, leaves_of<typename G::roots>>::type;

template <class... E>
concat<typename E::args...>* operands_of_all(type_list<E...>*);
template <class... E>
constexpr std::array<int, sizeof...(E)> numbers_of_operands(type_list<E...>*) {
  return {count_of_types<typename E::args>::value...};
}
template <class Nodes, class... A>
constexpr std::array<std::size_t, sizeof...(A)> positions_of(type_list<A...>*) {
  return {position_in<Nodes, A>::value...};
}
template <class List, class... E>
constexpr std::array<bool, sizeof...(E)> are_in(type_list<E...>*) {
  return {contains<List, E>...};
}
template <class... E>
constexpr std::array<bool, sizeof...(E)> are_differentiable(type_list<E...>*) {
  return {E::grad...};
}
/// The nodes of graph G by number.
template <class G>
struct node_table {
  static constexpr auto operands = detail::numbers_of_operands(static_cast<nodes_in<G>*>(nullptr));
  static constexpr auto edges = detail::positions_of<nodes_in<G>>(
      static_cast<list_of<decltype(detail::operands_of_all(detail::pack<nodes_in<G>>()))>*>(nullptr));
  static constexpr auto readers = detail::readers_of(operands, edges);
  static constexpr auto active =
      detail::active_nodes(operands, edges, detail::are_differentiable(static_cast<nodes_in<G>*>(nullptr)),
                           detail::are_in<wanted_in<G>>(static_cast<nodes_in<G>*>(nullptr)));
  static constexpr auto roots = detail::are_in<unique<typename G::roots::list>>(static_cast<nodes_in<G>*>(nullptr));
  static constexpr bool is_active(int n) { return active[static_cast<std::size_t>(n)]; }
  static constexpr bool is_root(int n) { return roots[static_cast<std::size_t>(n)]; }
  static constexpr int readers_of_node(int n) {
    auto const i = static_cast<std::size_t>(n);
    return static_cast<int>(readers.end[i] - readers.begin[i]);
  }
  static constexpr int reader_of_node(int n, int which) {
    return readers.reader[readers.begin[static_cast<std::size_t>(n)] + static_cast<std::size_t>(which)];
  }
};
template <class G, int Number>
using node_at = nth<Number, nodes_in<G>>;
template <class G, int Number>
struct gradient_terms;

/// The kind of numbers that a gradient by E is stored as.
template <class E>
inline constexpr kind gradient_kind = E::kind_of;
template <class E>
requires(E::op::rounds_gradient) inline constexpr kind gradient_kind<E> = kind::real;

/// The gradient by node `Number` of the graph, in a buffer. The number keeps types short.
template <class G, int Number>
struct adjoint {
  using of = detail::node_at<G, Number>;
  using terms = typename detail::gradient_terms<G, Number>::type;
  using args = terms;
  using extents = typename of::extents;
  static constexpr kind kind_of = detail::gradient_kind<of>;
  static constexpr form form_of = form::let;
  static constexpr bool grad = false;
};

/// The gradient by a node: none without terms; the sum itself if it is read element by element or moved, else a buffer.
/// A sum that is moved is also a buffer if kernels can add its terms there and no other gradient has the same terms.
enum class gradient_form { none, sum, buffer };
template <class... T>
constexpr bool add_in_place(type_list<T...>*) {
  return sizeof...(T) > 1 && (AddsInPlace<T> || ...);
}
/// True if all readers of a node are kernels: gradients through others may also be those of another operand.
template <class G, int Number, int... Which>
constexpr bool read_by_kernels(std::integer_sequence<int, Which...>) {
  return ((node_at<G, node_table<G>::reader_of_node(Number, Which)>::form_of == form::kernel) && ...);
}
template <class G, int Number, class C>
inline constexpr bool moves_gradients = false;
template <class G, int Number, class C>
requires(C::form_of == form::view) inline constexpr bool moves_gradients<G, Number, C> =
    !C::op::gathers_gradients &&
    !(detail::add_in_place(static_cast<typename gradient_terms<G, Number>::type*>(nullptr)) &&
      detail::read_by_kernels<G, Number>(std::make_integer_sequence<int, node_table<G>::readers_of_node(Number)>{}));
template <class G, int Number, class C>
using gradient_form_of =
    std::integral_constant<gradient_form, count_of_types<typename gradient_terms<G, Number>::type>::value == 0
                                              ? gradient_form::none
                                          : Pointwise<C> || moves_gradients<G, Number, C> ? gradient_form::sum
                                                                                          : gradient_form::buffer>;
template <class... T>
auto add_all(type_list<T...>*) -> decltype((... + T{}));
template <gradient_form>
struct gradient_by {
  template <class G, int>
  using type = none;
};
template <>
struct gradient_by<gradient_form::sum> {
  template <class G, int Number>
  using type = decltype(detail::add_all(detail::pack<typename gradient_terms<G, Number>::type>()));
};
template <>
struct gradient_by<gradient_form::buffer> {
  template <class G, int Number>
  using type = adjoint<G, Number>;
};

/// The gradients of the operands of node C, by its operation's vjp of gradient D.
template <class C, class... A, class D>
auto pull(type_list<A...>*, D d) -> decltype(C::op::vjp(d, A{}..., C{}))*;
template <gradient_form Gradient, bool IsLet>
struct vjp {
  template <class C, class D>
  using type = list_of<decltype(detail::pull<C>(detail::pack<typename C::args>(), D{}))>;
};
template <gradient_form Gradient>
struct vjp<Gradient, true> {
  template <class C, class D>
  using type = gradients<D>;
};
template <bool IsLet>
struct vjp<gradient_form::none, IsLet> {
  template <class C, class D>
  using type = gradients<>;
};
template <>
struct vjp<gradient_form::none, true> : vjp<gradient_form::none, false> {};
template <int Slots, int Operands>
struct vjp_result {
  static_assert(Slots == 0 || Slots == Operands, "headmix: vjp returns one gradient (or none) for each operand");
  template <class Gradients>
  using checked = Gradients;
};

/// A gradient of [FoundRows, FoundCols] by an operand of [Rows, Cols], summed over broadcast extents.
template <bool SumsRows, bool SumsCols>
struct sum_along {
  template <class D>
  using of = D;
};
template <bool SumsCols>
struct sum_along<true, SumsCols> {
  template <class D>
  using of = typename sum_along<false, SumsCols>::template of<decltype(col_sum(D{}))>;
};
template <>
struct sum_along<false, true> {
  template <class D>
  using of = decltype(row_sum(D{}));
};
template <Index FoundRows, Index Rows, Index FoundCols, Index Cols>
struct fitted : sum_along<Rows == 1 && FoundRows != 1, Cols == 1 && FoundCols != 1> {
  static_assert((extents_agree<FoundRows, Rows> || Rows == 1) && (extents_agree<FoundCols, Cols> || Cols == 1),
                "headmix: a vjp returned a gradient of other extents than its operand");
};

/// The gradient D by operand A, as a term of the gradient by X if A is X.
template <bool IsTerm>
struct slot {
  template <class X, class D>
  using type =
      type_list<typename fitted<rows<D>::value, rows<X>::value, cols<D>::value, cols<X>::value>::template of<D>>;
};
template <>
struct slot<false> {
  template <class, class>
  using type = type_list<>;
};
template <class X, class A, class D>
using slot_for = typename slot<__is_same(A, X) && !__is_same(D, none)>::template type<X, D>;
template <class X, class Operands>
auto slots_for(Operands*, gradients<>*) -> type_list<>*;
template <class X, class... A, class... D>
requires(sizeof...(A) == sizeof...(D) && sizeof...(D) > 0)  //
    auto slots_for(type_list<A...>*, gradients<D...>*) -> concat<slot_for<X, A, D>...>*;

/// The terms of the gradient by X that node `Reader` contributes.
template <bool IsActive>
struct contribution {
  template <class G, int Reader, class X>
  using type = type_list<>;
};
template <>
struct contribution<true> {
  template <class G, int Reader, class C, gradient_form Form>
  using gradients_from = typename vjp<Form, C::form_of == form::let>::  //
      template type<C, typename gradient_by<Form>::template type<G, Reader>>;
  template <class X, class C, class Gradients>
  using slots = list_of<decltype(detail::slots_for<X>(
      detail::pack<typename C::args>(),
      static_cast<typename vjp_result<Gradients::size, count_of_types<typename C::args>::value>::  //
                  template checked<Gradients>*>(nullptr)))>;
  template <class G, int Reader, class X, class C = node_at<G, Reader>>
  using type = slots<X, C, gradients_from<G, Reader, C, gradient_form_of<G, Reader, C>::value>>;
};
template <class G, int Reader>
inline constexpr bool contributes = node_table<G>::is_active(Reader) && node_at<G, Reader>::form_of != form::output;

/// True for terms of which two may be one operation, and for two that are.
template <class T>
inline constexpr bool may_be_paired = false;
template <class Op, class... A>
inline constexpr bool may_be_paired<node<Op, A...>> = Op::sums_pairs;
template <class T, class U>
inline constexpr bool are_pair = false;
template <class Op, class... A, class... B>
requires(Op::sums_pairs) inline constexpr bool are_pair<node<Op, A...>, node<Op, B...>> =
    Op::is_sum(static_cast<type_list<A...>*>(nullptr), static_cast<type_list<B...>*>(nullptr));
/// Done followed by the terms, in which the sum of a pair takes the place of the first of the two.
template <class Done, class... T>
struct terms_paired {
  using type = Done;
};
template <bool Found>
struct pair_first {
  template <class Done, class H, class... T>
  using type = typename terms_paired<concat<Done, type_list<H>>, T...>::type;
};
template <>
struct pair_first<true> {
  template <class H, class... T>
  static constexpr int partner() {
    constexpr bool is[] = {are_pair<H, T>...};
    int at = 0;
    while (!is[at]) ++at;
    return at;
  }
  template <class Done, class... T>
  static auto with(type_list<T...>*) -> typename terms_paired<Done, T...>::type*;
  template <int Partner, int... Which, class... T>
  static auto without(std::integer_sequence<int, Which...>, type_list<T...>*) -> concat<kept<Which != Partner, T>...>*;
  template <class Done, class H, int Partner, class... T>
  using with_sum = list_of<decltype(pair_first::with<
                                    concat<Done,
                                           type_list<decltype(H::op::sum_of(
                                               typename H::args{}, typename nth<Partner, type_list<T...>>::args{}))>>>(
      detail::pack<list_of<decltype(pair_first::without<Partner>(
          std::make_integer_sequence<int, static_cast<int>(sizeof...(T))>{}, detail::pack<type_list<T...>>()))>>()))>;
  template <class Done, class H, class... T>
  using type = with_sum<Done, H, partner<H, T...>(), T...>;
};
template <class Done, class H, class... T>
struct terms_paired<Done, H, T...> {
  using type = typename pair_first<(are_pair<H, T> || ...)>::template type<Done, H, T...>;
};
template <bool MayBePaired>
struct pairs_summed {
  template <class... T>
  using type = type_list<T...>;
};
template <>
struct pairs_summed<true> {
  template <class... T>
  using type = typename terms_paired<type_list<>, T...>::type;
};
template <class... T>
auto sum_pairs(type_list<T...>*) -> typename pairs_summed<((may_be_paired<T> ? 1 : 0) + ... + 0) >= 2>::  //
    template type<T...>*;

template <bool IsActive>
struct terms_by {
  template <class G, int Number, int... Reader>
  using type = type_list<>;
};
template <>
struct terms_by<true> {
  template <class G, int Number, int... Reader>
  using type = list_of<decltype(detail::sum_pairs(
      detail::pack<
          concat<kept<node_table<G>::is_root(Number), output_gradient<node_at<G, Number>>>,
                 typename contribution<contributes<G, Reader>>::template type<G, Reader, node_at<G, Number>>...>>()))>;
};
template <class G, int Number, class Which>
struct terms_of_node;
template <class G, int Number, int... Which>
struct terms_of_node<G, Number, std::integer_sequence<int, Which...>> {
  using type = typename terms_by<node_table<G>::is_active(Number)>::  //
      template type<G, Number, node_table<G>::reader_of_node(Number, Which)...>;
};
/// The terms of the gradient by node `Number`: the output gradient of a root, and the contributions of its readers.
template <class G, int Number>
struct gradient_terms
    : terms_of_node<G, Number, std::make_integer_sequence<int, node_table<G>::readers_of_node(Number)>> {};

template <bool HasTerms>
struct visit_sink {
  template <class Steps, class L, class Terms>
  using after =
      list_of<decltype(detail::append<accumulate_gradient<L, Terms>>(detail::pack<terms_visited<Steps, Terms>>()))>;
};
template <>
struct visit_sink<false> {
  template <class Steps, class, class>
  using after = Steps;
};
template <class Steps, class L, class Terms>
using sink_visited = typename visit_sink<(count_of_types<Terms>::value > 0)>::template after<Steps, L, Terms>;
template <class G, int Count>
struct visit_each_sink {
  template <class Steps, class L, class... T>
  static auto after(type_list<L, T...>*)
      -> decltype(visit_each_sink<G, Count - 1>::template after<
                  sink_visited<Steps, L, typename gradient_terms<G, position_in<nodes_in<G>, L>::value>::type>>(
          detail::pack<type_list<T...>>()));
};
template <class G>
struct visit_each_sink<G, 0> {
  template <class Steps>
  static Steps* after(type_list<>*);
};
template <class G, class Steps, class Leaves>
using sinks_visited =
    list_of<decltype(visit_each_sink<G, count_of_types<Leaves>::value>::template after<Steps>(detail::pack<Leaves>()))>;

/// Forward steps followed by those of the backward pass, one accumulation for each wanted leaf. Leaves that were used
/// last come first, so that gradients have short lifetimes.
template <class Forward, class G>
using schedule_gradients = detail::sinks_visited<G, Forward, reverse<detail::wanted_in<G>>>;
}  // namespace detail

}  // namespace headmix
