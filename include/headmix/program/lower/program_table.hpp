#pragma once
// SPDX-License-Identifier: MIT
// The rows of a program (program/table/rows.hpp) from its types: constant arrays of numbers, and of pointers to
// functions that all programs share.

#include "headmix/program/lower/call_groups.hpp"
#include "headmix/program/lower/program_lists.hpp"

namespace headmix::detail {

/// The buffer or leaf in whose memory E lies.
template <class E>
struct memory_below {
  using type = memory_of<E>;
};
template <class E>
requires(memory_of<E>::form_of == form::view) struct memory_below<E> : memory_below<source_of<memory_of<E>>> {
};

/// The number of a value in the list Values; ~number where only the extents are read.
template <class Values, class E>
inline constexpr value_number number_of = position_in<Values, E>::value;
template <class Values, class E>
inline constexpr value_number number_of<Values, extents_of<E>> = ~position_in<Values, E>::value;

/// True for buffers that the kernel leaves out if no call reads them.
template <class E, form = E::form_of>
inline constexpr bool is_optional = false;
template <class E>
inline constexpr bool is_optional<E, form::kernel> = E::op::optional_outputs;
template <class E>
inline constexpr bool is_optional<E, form::output> = operand_of<E>::op::optional_outputs;

template <class Op, class T>
struct view_kernel {
  template <class Run>
  static untyped_view apply(run_context<typename Run::backend_type> const& context, untyped_view const& source) {
    return untyped(Op::apply(Run{context}, typed<T>(source)));
  }
};
template <class E>
struct number_from {
  template <class Run>
  static double value(run_context<typename Run::backend_type> const& context) {
    return E::template value<double>(Run{context});
  }
};
/// The row of a derived value; empty where only the extents are read.
template <class Run, class Scalar, class E, form = E::form_of>
inline constexpr derived_row<typename Run::backend_type> derived_row_of = {nullptr, nullptr};
template <class Run, class Scalar, class E>
inline constexpr derived_row<typename Run::backend_type> derived_row_of<Run, Scalar, E, form::view> = {
    &view_kernel<typename E::op, storage_t<E::kind_of, Scalar>>::template apply<Run>, nullptr};
template <class Run, class Scalar, class E>
inline constexpr derived_row<typename Run::backend_type>
    derived_row_of<Run, Scalar, number_in<E>, form::scalar_constant> = {nullptr, &number_from<E>::template value<Run>};
/// The number of the source of view E, -1 for none.
template <class Values, class E, form = E::form_of>
inline constexpr int source_number = -1;
template <class Values, class E>
inline constexpr int source_number<Values, E, form::view> = position_in<Values, memory_of<source_of<E>>>::value;

template <class Run, class Kernel>
constexpr call_functions<typename Run::backend_type> functions_of() {
  call_functions<typename Run::backend_type> functions{&Kernel::template run<Run>, nullptr, Kernel::sized_output,
                                                       nullptr, nullptr};
  if constexpr (Kernel::needs_scratch) functions.scratch = &Kernel::template scratch<Run>;
  if constexpr (Kernel::sized_output > 0) functions.columns = &Kernel::template columns<Run>;
  if constexpr (Kernel::receives) functions.received = &Kernel::template received<Run>;
  return functions;
}
template <std::size_t Calls>
constexpr std::array<call_row, Calls> with_begins(std::array<call_row, Calls> rows) {
  int begin = 0;
  for (call_row& r : rows) {
    r.begin = begin;
    begin += r.values;
  }
  return rows;
}

/// validate() of an operation, by the extents of its operands and not by expressions: debug information describes every
/// type in the name of a function.
template <class Op, class... Extents>
struct validator {
  template <class Run>
  static void check(run_context<typename Run::backend_type> const& context) {
    Op::template validate<Extents...>(Run{context});
  }
};
template <class E>
struct validator_of;
template <class Op, class... A>
struct validator_of<node<Op, A...>> : validator<Op, typename A::extents...> {};
template <class Step>
inline constexpr bool validates = false;
template <class E>
inline constexpr bool validates<run_kernel<E>> = E::op::validates;
struct is_validated {
  template <class Step>
  static constexpr bool value = validates<Step>;
};

// The arrays of a program P, by functions of one list each, since symbols spell lists out.

/// The size of the rows of a call's result if the call finds it out, else -1.
template <class Sizes, class Call, bool Receives = kernel_of_call<Call>::receives>
inline constexpr int received_size = -1;
template <class Sizes, class Call>
inline constexpr int received_size<Sizes, Call, true> =
    position_in<Sizes, rows<first_in<outputs_of_call<Call>>>>::value;
template <class Repetitions, class Sizes, class... C>
constexpr auto rows_of_calls(type_list<C...>*) {
  return with_begins<sizeof...(C)>({call_row{
      0, count_of_types<values_of_call<C>>::value, count_of_types<outputs_of_call<C>>::value,
      effect_of_call<C>::accumulate, effect_of_call<C>::accumulates_gradient, kernel_of_call<C>::at::edge,
      kernel_of_call<C>::at::template repeat<Repetitions>, received_size<Sizes, C>, kernel_of_call<C>::is_asynchronous,
      kernel_of_call<C>::in_place, kernel_of_call<C>::can_add, kernel_of_call<C>::stacks_outputs}...});
}
template <class... R>
constexpr auto rows_of_repeats(type_list<R...>*) {
  return std::array<repeat_row, sizeof...(R)>{repeat_row{name_source<R>(), R::recompute}...};
}
template <class Run, class... C>
constexpr auto functions_of_calls(type_list<C...>*) {
  return std::array<call_functions<typename Run::backend_type>, sizeof...(C)>{
      functions_of<Run, kernel_of_call<C>>()...};
}
template <class P, class... V>
constexpr auto numbers_of_values(type_list<V...>*) {
  using values = values_in<P>;
  return std::array<value_number, sizeof...(V)>{number_of<values, V>...};
}
template <class P, class... E>
constexpr auto shapes_of(type_list<E...>*) {
  return std::array<shape_formula, sizeof...(E)>{shape_formula_of<typename P::sizes, typename E::extents>...};
}
template <class Scalar, class Further, class... B>
constexpr auto rows_of_buffers(type_list<B...>*) {
  return std::array<buffer_row, sizeof...(B)>{
      buffer_row{sizeof(storage_t<B::kind_of, Scalar>), is_optional<B> || contains<Further, B>}...};
}
template <class P, class... D>
constexpr auto rows_of_derived(type_list<D...>*) {
  using Run = typename P::run;
  return std::array<derived_row<typename Run::backend_type>, sizeof...(D)>{
      derived_row_of<Run, typename P::scalar, D>...};
}
template <class P, class... D>
constexpr auto sources_of(type_list<D...>*) {
  using values = values_in<P>;
  return std::array<int, sizeof...(D)>{source_number<values, D>...};
}
template <class P, class... R>
constexpr auto memory_of_roots(type_list<R...>*) {
  using values = values_in<P>;
  return std::array<int, sizeof...(R)>{position_in<values, typename memory_below<R>::type>::value...};
}
template <class Run, class... E>
constexpr auto validators_of(type_list<run_kernel<E>...>*) {
  return std::array<void (*)(run_context<typename Run::backend_type> const&), sizeof...(E)>{
      &validator_of<E>::template check<Run>...};
}

/// The calls of P without groups.
template <class P>
struct single_calls {
  using binding = binding_arrays<P>;
  static constexpr auto const& leaf_rows = binding::leaves;
  static constexpr auto rows =
      detail::rows_of_calls<typename binding::repetitions, typename P::sizes>(static_cast<calls_in<P>*>(nullptr));
  static constexpr auto functions = detail::functions_of_calls<typename P::run>(static_cast<calls_in<P>*>(nullptr));
  static constexpr auto numbers = detail::numbers_of_values<P>(static_cast<values_of<calls_in<P>>*>(nullptr));
  static constexpr auto sources = detail::sources_of<P>(static_cast<derived_in<P>*>(nullptr));
  static constexpr auto forward_calls =
      static_cast<std::size_t>(count_of_types<calls_by<P, forward_steps_in<P>>>::value);
};
/// The calls of P, one for each group.
template <class P, bool Groups = groups_calls<typename P::backend>>
struct made_calls : single_calls<P> {};
template <class P>
struct made_calls<P, true> {
  using order = order_of_calls<P, single_calls<P>>;
  static constexpr auto rows = detail::rows_of_calls<typename binding_arrays<P>::repetitions, typename P::sizes>(
      static_cast<grouped_calls<order>*>(nullptr));
  static constexpr auto functions =
      detail::functions_of_calls<typename P::run>(static_cast<grouped_calls<order>*>(nullptr));
  static constexpr auto numbers = detail::numbers_of_values<P>(static_cast<values_of<grouped_calls<order>>*>(nullptr));
  static constexpr std::size_t forward_calls = order::value.forward_groups;
};
template <bool Groups>
struct called {
  template <class P>
  using in = calls_in<P>;
};
template <>
struct called<true> {
  template <class P>
  using in = grouped_calls<order_of_calls<P, single_calls<P>>>;
};
/// The list of the calls of P, one for each group.
template <class P>
using made_calls_in = typename called<groups_calls<typename P::backend>>::template in<P>;

/// The tables of a program.
template <class Roots, class Backend, class Mode>
struct program : program_parts<Roots, Backend, Mode> {
  using parts = program_parts<Roots, Backend, Mode>;
  using run = typename parts::run;
  using binding = binding_arrays<parts>;
  using calls = made_calls<parts>;
  using repetitions = typename binding::repetitions;
  static constexpr auto repeats = detail::rows_of_repeats(static_cast<repetitions*>(nullptr));
  static constexpr auto shapes = detail::shapes_of<parts>(
      static_cast<concat<output_gradients_in<parts>, buffers_in<parts>, derived_in<parts>>*>(nullptr));
  static constexpr auto buffers =
      detail::rows_of_buffers<typename parts::scalar, written_if_read<Backend, steps_in<parts>>>(
          static_cast<buffers_in<parts>*>(nullptr));
  static constexpr auto derived_rows = detail::rows_of_derived<parts>(static_cast<derived_in<parts>*>(nullptr));
  static constexpr auto surviving = detail::memory_of_roots<parts>(static_cast<roots_in<parts>*>(nullptr));
  static constexpr auto validators =
      detail::validators_of<run>(static_cast<filter<forward_steps_in<parts>, is_validated>*>(nullptr));
  static constexpr program_functions<Backend> functions = {calls::functions, derived_rows, validators};
  static constexpr program_table table = {{binding::names,
                                           {contains<mentioned_sizes<typename parts::graph_of>, tokens>,
                                            contains<mentioned_sizes<typename parts::graph_of>, context_tokens>},
                                           binding::keys_from_context,
                                           binding::leaves,
                                           binding::checks,
                                           binding::reshaped,
                                           binding::rules},
                                          calls::rows,
                                          calls::forward_calls,
                                          calls::numbers,
                                          shapes,
                                          static_cast<std::size_t>(count_of_types<output_gradients_in<parts>>::value),
                                          buffers,
                                          single_calls<parts>::sources,
                                          surviving,
                                          first_in<roots_in<parts>>::grad,
                                          repeats};
};

}  // namespace headmix::detail
