#pragma once
// SPDX-License-Identifier: MIT
// Kernel calls: a function that depends on an operation and the types of its operands alone, and the numbers of the
// operands' values. Programs of the same operations share the functions.

#include <array>
#include <span>
#include <tuple>

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/expr/repeat_edge.hpp"
#include "headmix/program/lower/schedule.hpp"
#include "headmix/program/run/context.hpp"

namespace headmix {

namespace ops {
struct before;
}  // namespace ops

namespace detail {

// ---- the running program, as operations see it ----

/// The `run` of an operation's eval(): backend, extents, and the call's scratch memory.
/// @tparam Sizes  the dynamic sizes of the program
template <class Sizes, class Backend>
struct sized_context : run_context<Backend> {
  /// The value of an extent.
  template <Extent X>
  [[nodiscard]] Index extent() const {
    return detail::extent_in<Sizes, X>(this->sizes);
  }
  /// The sequences that the rows counted by X belong to.
  template <Extent X>
  [[nodiscard]] segments segments_of() const {
    return detail::segments_in<Sizes, X>(this->sizes);
  }
  /// to (+)= from, numbers of any two kinds.
  template <class T, class U>
  void copy(view<T> to, view<U const> from, bool accumulate) const {
    this->backend.map(to, tree_leaf<U, false, false>{from}, accumulate);
  }
};

// ---- what an expression becomes, and the values that it reads ----

template <bool IsAlias>
struct memory {
  template <class E>
  using of = E;
};
template <>
struct memory<true> {
  template <class E>
  using of = typename memory<Alias<first_in<terms<E>>>>::template of<first_in<terms<E>>>;
};
/// The value in whose memory E lies: E itself, unless E is an alias.
template <class E>
using memory_of = typename memory<Alias<E>>::template of<E>;

/// A value of which a call reads only the extents.
template <class E>
struct extents_of {};

/// A scalar constant as a number in the call; other calls may read it from memory.
template <class E>
struct number_in {
  using extents = typename E::extents;
  static constexpr form form_of = form::scalar_constant;
};

/// E, read element by element: the tree that a kernel receives, and the values that `reader` reads for it.
template <class E, class Scalar>
struct lowered {
  using tree =
      tree_leaf<storage_t<E::kind_of, Scalar>, rows<E>::value == 1 && count<E>::value == 1, cols<E>::value == 1>;
  using values = type_list<memory_of<E>>;
};
template <class E, class Scalar>
requires(E::form_of == form::scalar_constant) struct lowered<E, Scalar> {
  using tree = tree_number<accumulator_t<Scalar>>;
  using values = type_list<number_in<E>>;
};
template <class Op, class... A, class Scalar>
requires(Op::form_of == form::pointwise) struct lowered<node<Op, A...>, Scalar> {
  using tree = tree_node<accumulator_t<Scalar>, Op, typename lowered<A, Scalar>::tree...>;
  using values = concat<typename lowered<A, Scalar>::values...>;
};
template <class Op, class A, class Scalar>
requires requires { typename Op::repeats; }
struct lowered<node<Op, A>, Scalar> {
  using tree = tree_repeat<typename lowered<A, Scalar>::tree>;
  using values =
      concat<type_list<extents_of<node<Op, A>>, extents_of<memory_of<A>>>, typename lowered<A, Scalar>::values>;
};
template <class Op, class Key, class Scalar>
requires requires { typename Op::draws; }
struct lowered<node<Op, Key>, Scalar> {
  using tree = tree_random<typename Op::draws, Op::stream>;
  using values = type_list<extents_of<node<Op, Key>>, memory_of<Key>>;
};

/// E, read element by element by a kernel that computes the elements of Products itself.
template <class E, class Scalar, class Products>
struct lowered_over : lowered<E, Scalar> {};
template <class E, class Scalar, class... P>
requires(std::is_same_v<E, P> || ...) struct lowered_over<E, Scalar, type_list<P...>> {
  using tree = tree_product<position_in<type_list<P...>, E>::value>;
  using values = type_list<>;
};
template <class Op, class... A, class Scalar, class... P>
requires(Op::form_of == form::pointwise && (reads_element<node<Op, A...>, P> || ...))  //
    struct lowered_over<node<Op, A...>, Scalar, type_list<P...>> {
  using tree = tree_node<accumulator_t<Scalar>, Op, typename lowered_over<A, Scalar, type_list<P...>>::tree...>;
  using values = concat<typename lowered_over<A, Scalar, type_list<P...>>::values...>;
};

/// The operand A of a kernel, in memory, or read element by element if the kernel fuses.
template <bool Fuses, class A, class Scalar>
struct operand {
  using type = view<storage_t<A::kind_of, Scalar> const>;
  using values = type_list<memory_of<A>>;
};
/// An operand that orders calls and is not read.
struct unread {};
template <class B, class Scalar>
struct operand<false, node<ops::before, B>, Scalar> {
  using type = unread;
  using values = type_list<extents_of<memory_of<B>>>;
};
template <CacheMemory A, class Scalar>
struct operand<false, A, Scalar> {
  using type = view<storage_t<A::kind_of, Scalar>>;
  using values = type_list<A>;
};
template <class E, class Products, class Scalar>
struct operand<false, over_products<E, Products>, Scalar> {
  using lowered = lowered_over<E, Scalar, Products>;
  using type = lazy<typename lowered::tree>;
  using values = concat<type_list<extents_of<E>>, typename lowered::values>;
};
template <class A, class Scalar>
struct operand<true, A, Scalar> {
  using type = lazy<typename lowered<A, Scalar>::tree>;
  using values = concat<type_list<extents_of<memory_of<A>>>, typename lowered<A, Scalar>::values>;
};

// ---- making operands of the values of a running program ----

template <class Operand>
struct reader;
template <class T>
struct reader<view<T>> {
  static view<T> read(value_reader& from, bound_sizes const&) { return typed<T>(from.memory()); }
};
template <>
struct reader<unread> {
  static unread read(value_reader& from, bound_sizes const&) {
    from.extents();
    return {};
  }
};
template <class T, bool OneRow, bool OneCol>
struct reader<tree_leaf<T, OneRow, OneCol>> {
  static tree_leaf<T, OneRow, OneCol> read(value_reader& from, bound_sizes const&) {
    return {typed<T const>(from.memory())};
  }
};
template <class W>
struct reader<tree_number<W>> {
  static tree_number<W> read(value_reader& from, bound_sizes const&) {
    return {static_cast<W>(*typed<double const>(from.memory()).data)};
  }
};
template <class W, class Op, class... A>
struct reader<tree_node<W, Op, A...>> {
  static tree_node<W, Op, A...> read(value_reader& from, bound_sizes const& sizes) {
    return {reader<A>::read(from, sizes)...};  // braces: evaluated from left to right
  }
};
template <class A>
struct reader<tree_repeat<A>> {
  static tree_repeat<A> read(value_reader& from, bound_sizes const& sizes) {
    Index const repeated = from.extents().rows, rows = from.extents().rows;
    return {reader<A>::read(from, sizes), rows == 0 ? 1 : repeated / rows};
  }
};
template <int Number>
struct reader<tree_product<Number>> {
  static tree_product<Number> read(value_reader&, bound_sizes const&) { return {}; }
};
template <class Distribution, random_stream Stream>
struct reader<tree_random<Distribution, Stream>> {
  static tree_random<Distribution, Stream> read(value_reader& from, bound_sizes const& sizes) {
    untyped_view const& drawn = from.extents();
    Index const batch = sizes.value[tokens_size];
    return {typed<Int const>(from.memory()).data, drawn.cols, batch == 0 ? 0 : drawn.rows / batch};
  }
};
template <class Tree>
struct reader<lazy<Tree>> {
  static lazy<Tree> read(value_reader& from, bound_sizes const& sizes) {
    untyped_view const& extents = from.extents();
    return {reader<Tree>::read(from, sizes), extents.count * extents.rows, extents.cols};
  }
};

// ---- the calls ----

/// Calls f(a...); braces around the arguments evaluate them from left to right.
struct in_order {
  template <class F, class... A>
  in_order(F const& f, A const&... a) {
    f(a...);
  }
};

/// The edge of a repeated part that an operation is, and the repetition.
template <class Op>
struct edge_of {
  static constexpr repeat_edge edge = repeat_edge::none;
  template <class Repetitions>
  static constexpr int repeat = -1;
};
template <class Op>
requires requires { Op::edge; }
struct edge_of<Op> {
  static constexpr repeat_edge edge = Op::edge;
  template <class Repetitions>
  static constexpr int repeat = position_in<Repetitions, typename Op::repeated_by>::value;
};

/// The kernel of an operation: outputs of type Out, operands of type In.
template <class Op, class Out, class In>
struct kernel;
template <class Op, class... Out, class... In>
struct kernel<Op, type_list<Out...>, type_list<In...>> {
  using at = edge_of<Op>;
  template <class Run>
  static void run(run_context<typename Run::backend_type> const& context, value_reader from, bool accumulate) {
    Run const run{context};
    if constexpr (Op::accumulates) {
      auto const y = reader<Out...>::read(from, run.sizes);
      in_order{[&](In const&... in) { Op::eval(run, y, accumulate, in...); }, reader<In>::read(from, run.sizes)...};
    } else {
      in_order{[&](Out const&... out, In const&... in) { Op::eval(run, out..., in...); },
               reader<Out>::read(from, run.sizes)..., reader<In>::read(from, run.sizes)...};
    }
  }
  template <class Run>
  static std::size_t scratch(run_context<typename Run::backend_type> const& context, value_reader from) {
    Run const run{context};
    std::size_t bytes = 0;
    in_order{[&](auto const&... operand) { bytes = Op::scratch(run, operand...); },
             reader<Out>::read(from, run.sizes)..., reader<In>::read(from, run.sizes)...};
    return bytes;
  }
  template <class Run>
  static Index columns(run_context<typename Run::backend_type> const& context, value_reader from) {
    Run const run{context};
    Index n = 0;
    in_order{[&](auto const&... operand) { n = Op::columns(run, operand...); }, reader<Out>::read(from, run.sizes)...,
             reader<In>::read(from, run.sizes)...};
    return n;
  }
  template <class Run>
  static Index received(run_context<typename Run::backend_type> const& context, value_reader from) {
    Run const run{context};
    Index n = 0;
    in_order{[&](auto const&... operand) { n = Op::received(run, operand...); }, reader<Out>::read(from, run.sizes)...,
             reader<In>::read(from, run.sizes)...};
    return n;
  }
  /// The step of each_row; `outputs` and `operands` advance past this kernel's values.
  template <class Run>
  static auto in_row(Run const& run, value_reader& outputs, value_reader& operands, bool accumulate) {
    auto const y = reader<Out...>::read(outputs, run.sizes);
    std::tuple<In...> const in{reader<In>::read(operands, run.sizes)...};
    return std::apply(
        [&](In const&... operand) {
          if constexpr (Op::accumulates) {
            return Op::in_row(run, y, accumulate, operand...);
          } else {
            return Op::in_row(run, y, operand...);
          }
        },
        in);
  }
  static constexpr bool is_row_local = Op::is_row_local;
  static constexpr bool needs_scratch = Op::needs_scratch;
  static constexpr int sized_output = Op::sized_output;
  static constexpr bool receives = Op::receives;
  static constexpr bool is_asynchronous = Op::is_asynchronous;
  static constexpr int in_place = Op::in_place;
  static constexpr bool can_add = Op::accumulates;
  static constexpr bool stacks_outputs = false;
};
/// The properties of kernels that are no operations.
struct plain_kernel {
  using at = edge_of<void>;
  static constexpr bool is_row_local = false;
  static constexpr bool needs_scratch = false;
  static constexpr int sized_output = 0;
  static constexpr bool receives = false;
  static constexpr bool is_asynchronous = false;
  static constexpr int in_place = 0;
  static constexpr bool can_add = false;
  static constexpr bool stacks_outputs = false;
};
/// y (+)= tree
template <class T, class Tree>
struct map_kernel : plain_kernel {
  template <class Run>
  static void run(run_context<typename Run::backend_type> const& context, value_reader from, bool accumulate) {
    Run const run{context};
    auto const y = reader<view<T>>::read(from, run.sizes);
    run.backend.map(y, reader<Tree>::read(from, run.sizes), accumulate);
  }
  template <class Run>
  static row_step::map<T, Tree> in_row(Run const& run, value_reader& outputs, value_reader& operands, bool accumulate) {
    auto const y = reader<view<T>>::read(outputs, run.sizes);
    return {y, reader<Tree>::read(operands, run.sizes), accumulate};
  }
  static constexpr bool is_row_local = true;
  static constexpr bool can_add = true;
};

/// One call; outputs and operands are lists of values. Without a definition, see core/type_list.hpp.
template <class Kernel, class Outputs, class Operands, bool Accumulate, bool AccumulatesGradient>
struct call;
template <class K, class Y, class V, bool Accumulate, bool AccumulatesGradient>
K kernel_in(call<K, Y, V, Accumulate, AccumulatesGradient>*);
template <class K, class Y, class V, bool Accumulate, bool AccumulatesGradient>
Y outputs_in(call<K, Y, V, Accumulate, AccumulatesGradient>*);
template <class K, class Y, class V, bool Accumulate, bool AccumulatesGradient>
V operands_in(call<K, Y, V, Accumulate, AccumulatesGradient>*);
template <bool Accumulate, bool AccumulatesGradient>
struct call_effect {
  static constexpr bool accumulate = Accumulate, accumulates_gradient = AccumulatesGradient;
};
template <class K, class Y, class V, bool Accumulate, bool AccumulatesGradient>
call_effect<Accumulate, AccumulatesGradient> effect_in(call<K, Y, V, Accumulate, AccumulatesGradient>*);
template <class Call>
using kernel_of_call = decltype(detail::kernel_in(detail::pack<Call>()));
template <class Call>
using outputs_of_call = decltype(detail::outputs_in(detail::pack<Call>()));
template <class Call>
using operands_of_call = decltype(detail::operands_in(detail::pack<Call>()));
template <class Call>
using effect_of_call = decltype(detail::effect_in(detail::pack<Call>()));
/// Outputs, then operands.
template <class Call>
using values_of_call = concat<outputs_of_call<Call>, operands_of_call<Call>>;

template <class Node, class Numbers>
struct buffers_of_node;
template <class Node, int... Number>
struct buffers_of_node<Node, std::integer_sequence<int, Number...>> {
  using type = type_list<Node, output<Number + 1, Node>...>;
};
/// The buffers that the kernel Node writes.
template <class Node>
using written_by = typename buffers_of_node<Node, std::make_integer_sequence<int, Node::op::outputs - 1>>::type;

template <class Node, class Scalar, class Outputs, class T, class Args = typename Node::args>
struct kernel_of;
template <class Node, class Scalar, class... Y, class... T, class... A>
struct kernel_of<Node, Scalar, type_list<Y...>, type_list<T...>, type_list<A...>> {
  static constexpr bool fuses = Node::op::fuses_operands;
  template <bool Accumulate, bool AccumulatesGradient>
  using call_with =
      call<kernel<typename Node::op, type_list<view<T>...>, type_list<typename operand<fuses, A, Scalar>::type...>>,
           type_list<Y...>, concat<typename operand<fuses, A, Scalar>::values...>, Accumulate, AccumulatesGradient>;
};

/// The gradient of leaf L, in the caller's memory.
template <class L>
struct gradient_of_leaf {};

struct fuses {
  template <class E>
  static constexpr bool value = !AddsInPlace<E>;
};
struct adds_in_place {
  template <class E>
  static constexpr bool value = AddsInPlace<E>;
};

/// y (+)= the sum of the terms: one pass over pointwise terms, then the kernels that add in place.
template <class Y, class T, class Scalar, class Fused, class InPlace, bool Accumulate, bool AccumulatesGradient>
struct sum_calls;
template <class Y, class T, class Scalar, class H, class... Node, bool Accumulate, bool AccumulatesGradient>
struct sum_calls<Y, T, Scalar, type_list<>, type_list<H, Node...>, Accumulate, AccumulatesGradient> {
  template <class X, bool Adds>
  using in_place =
      typename kernel_of<X, Scalar, type_list<Y>, type_list<T>>::template call_with<Adds, AccumulatesGradient>;
  using type = type_list<in_place<H, Accumulate>, in_place<Node, true>...>;
};
template <class Y, class T, class Scalar, class... F, class... Node, bool Accumulate, bool AccumulatesGradient>
struct sum_calls<Y, T, Scalar, type_list<F...>, type_list<Node...>, Accumulate, AccumulatesGradient> {
  using sum = lowered<decltype((F{} + ...)), Scalar>;
  using type = type_list<
      call<map_kernel<T, typename sum::tree>, type_list<Y>, typename sum::values, Accumulate, AccumulatesGradient>,
      typename kernel_of<Node, Scalar, type_list<Y>, type_list<T>>::template call_with<true, AccumulatesGradient>...>;
};
template <class Y, class T, class Scalar, class Terms, bool Accumulate, bool AccumulatesGradient>
using sum_of_terms = typename sum_calls<Y, T, Scalar, filter<Terms, fuses>, filter<Terms, adds_in_place>, Accumulate,
                                        AccumulatesGradient>::type;

/// The calls of a step, and its buffers.
template <class Step, class Scalar>
struct calls_of;
template <class Node, class Scalar>
struct calls_of<run_kernel<Node>, Scalar> {
  using buffers = written_by<Node>;
  template <class... B>
  static auto calls_for(type_list<B...>*)
      -> type_list<typename kernel_of<Node, Scalar, buffers, type_list<storage_t<B::kind_of, Scalar>...>>::  //
                   template call_with<false, false>>;
  using type = decltype(calls_for(detail::pack<buffers>()));
};
template <class E, class Scalar>
struct calls_of<materialize<E>, Scalar> {
  using buffers = type_list<E>;
  using stored = typename std::conditional_t<Pointwise<E>, std::type_identity<type_list<E>>, terms_of<E>>::type;
  using type = sum_of_terms<E, storage_t<E::kind_of, Scalar>, Scalar, stored, false, false>;
};
template <class L, class T, class Scalar>
struct calls_of<accumulate_gradient<L, T>, Scalar> {
  using buffers = type_list<>;
  using type = sum_of_terms<gradient_of_leaf<L>, storage_t<L::kind_of, Scalar>, Scalar, T, true, true>;
};

}  // namespace detail
}  // namespace headmix
