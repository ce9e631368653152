#pragma once
// SPDX-License-Identifier: MIT
// The values and calls of a program as tables: types go in, constant arrays of numbers and of pointers to shared
// functions come out. What runs (program/plan.hpp, program/runner.hpp) are loops over them.

#include "headmix/program/binding_table.hpp"
#include "headmix/program/call_groups.hpp"
#include "headmix/program/fuse.hpp"
#include "headmix/program/gradient.hpp"
#include "headmix/program/runner.hpp"

namespace headmix::detail {

template <class Scalar, class Steps>
struct program_calls;
template <class Scalar, class... S>
struct program_calls<Scalar, type_list<S...>> {
  using calls = concat<typename calls_of<S, Scalar>::type...>;
  using buffers = concat<typename calls_of<S, Scalar>::buffers...>;
};
template <class Calls>
struct values_of_calls;
template <class... C>
struct values_of_calls<type_list<C...>> {
  using type = concat<typename C::values...>;
};

/// The values that are made of others without a kernel, in the order in which they can be made: views, numbers, and
/// expressions of which only the extents are asked for.
template <class E>
struct derived_for {
  using type = type_list<E>;
};
template <class E>
requires(E::form_of == form::view) struct derived_for<E> {
  using type = concat<typename derived_for<memory_of<source_of<E>>>::type, type_list<E>>;
};
template <class E>
struct derived_for<extents_of<E>> : derived_for<E> {};
template <class Values>
struct all_derived;
template <class... E>
struct all_derived<type_list<E...>> {
  using type = concat<typename derived_for<E>::type...>;
};
/// Those that are not stored, once each.
template <class Stored, class Values>
struct not_stored;
template <class Stored, class... E>
struct not_stored<Stored, type_list<E...>> {
  using type = unique<concat<typename kept<!contains<Stored, E>>::template type<E>...>>;
};

template <class List>
struct seeds_of;
template <class... R>
struct seeds_of<type_list<R...>> {
  using type = type_list<seed<R>...>;
};
template <class List>
struct leaf_gradients;
template <class... L>
struct leaf_gradients<type_list<L...>> {
  using type = type_list<gradient_of_leaf<L>...>;
};

/// The buffer (or leaf) that lies below E.
template <class E>
struct memory_below {
  using type = memory_of<E>;
};
template <class E>
requires(memory_of<E>::form_of == form::view) struct memory_below<E> : memory_below<source_of<memory_of<E>>> {
};

template <class Values, class E>
struct number_of : position_in<Values, E> {};
template <class Values, class E>
struct number_of<Values, extents_of<E>> : std::integral_constant<value_number, ~position_in<Values, E>::value> {};

/// True when the kernel leaves this buffer out if nobody reads it.
template <class E, form = E::form_of>
inline constexpr bool is_optional = false;
template <class E>
inline constexpr bool is_optional<E, form::barrier> = E::op::optional_outputs;
template <class E>
inline constexpr bool is_optional<E, form::output> = operand_of<E>::op::optional_outputs;

template <class Op, class T>
struct view_kernel {
  template <class Run>
  static untyped_view apply(Run const& run, untyped_view const& source) {
    return untyped(Op::apply(run, typed<T>(source)));
  }
};
template <class E>
struct number_from {
  template <class Run>
  static double value(Run const& run) {
    return E::template value<double>(run);
  }
};
/// Of an expression of which only the extents are asked for, unless it is a view or a number.
template <class Run, class Scalar, class E, form = E::form_of>
inline constexpr derived_row<Run> derived_row_of = {nullptr, nullptr};
template <class Run, class Scalar, class E>
inline constexpr derived_row<Run> derived_row_of<Run, Scalar, E, form::view> = {
    &view_kernel<typename E::op, storage_t<E::kind_of, Scalar>>::template apply<Run>, nullptr};
template <class Run, class Scalar, class E>
inline constexpr derived_row<Run> derived_row_of<Run, Scalar, number_in<E>, form::immediate> = {
    nullptr, &number_from<E>::template value<Run>};
/// What it is made of, if it is a view.
template <class Values, class E, form = E::form_of>
struct source_number : std::integral_constant<int, -1> {};
template <class Values, class E>
struct source_number<Values, E, form::view> : position_in<Values, memory_of<source_of<E>>> {};

template <class Run, class Kernel>
constexpr call_functions<Run> functions_of() {
  call_functions<Run> functions{&Kernel::template run<Run>, nullptr, Kernel::sized_output, nullptr, nullptr};
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

/// validate() of an operation, by the extents of its operands: names of functions do not spell expressions out, since
/// debug information describes every type that such a name has.
template <class Op, class... Extents>
struct validator {
  template <class Run>
  static void check(Run const& run) {
    Op::template validate<Extents...>(run);
  }
};
template <class E>
struct validator_of;
template <class Op, class... A>
struct validator_of<node<Op, A...>> : validator<Op, typename A::extents...> {};
template <class Step>
inline constexpr bool validates = false;
template <class E>
inline constexpr bool validates<compute<E>> = E::op::validates;
struct is_validated {
  template <class Step>
  static constexpr bool value = validates<Step>;
};

/// The lists that a program consists of.
template <class Roots, class Backend, class Mode>
struct program_lists {
  using scalar = typename Backend::scalar;
  using graph_of = graph<Roots, Mode>;
  using root_list = typename Roots::list;
  using leaves = leaves_of<Roots>;
  using objective = filter<root_list, has_gradient>;
  using forward_steps = schedule<type_list<>, root_list>;
  using steps = schedule_gradients<forward_steps, graph_of>;

  using bound = bound_nodes<typename graph_of::nodes>;
  using sizes = unique<concat<standing_sizes, typename bound::mentioned>>;
  using run = run_context<sizes, Backend>;

  using fused = fused_for<Backend, steps>;
  using made = program_calls<scalar, typename fused::type>;
  using numbers = typename values_of_calls<typename made::calls>::type;
  using seeds = typename seeds_of<objective>::type;
  using stored = concat<leaves, typename leaf_gradients<leaves>::type, seeds, typename made::buffers>;
  using derived = typename not_stored<stored, typename all_derived<numbers>::type>::type;
  using values = concat<stored, derived>;
  using shaped = concat<seeds, typename made::buffers, derived>;
};

// Its arrays, where P is such lists. Functions of one list each: what is made of several would spell them all out in
// its name, which compilers make even if nobody asks for it.

/// Which size a call finds out, -1 for none: that of the rows of its result.
template <class Sizes, class Call, bool Receives = Call::kernel::receives>
inline constexpr int received_size = -1;
template <class Sizes, class Call>
inline constexpr int received_size<Sizes, Call, true> =
    position_in<Sizes, rows<typename first_of<typename Call::outputs>::type>>::value;
template <class Repetitions, class Sizes, class... C>
constexpr auto rows_of_calls(type_list<C...>) {
  return with_begins<sizeof...(C)>({call_row{0, C::values::size, C::outputs::size, C::accumulate, C::into_leaf,
                                             C::kernel::at::edge, C::kernel::at::template repeat<Repetitions>,
                                             received_size<Sizes, C>, C::kernel::goes_on, C::kernel::in_place}...});
}
template <class... R>
constexpr auto rows_of_repeats(type_list<R...>) {
  return std::array<repeat_row, sizeof...(R)>{repeat_row{name_source<R>(), R::recompute}...};
}
template <class Run, class... C>
constexpr auto functions_of_calls(type_list<C...>) {
  return std::array<call_functions<Run>, sizeof...(C)>{functions_of<Run, typename C::kernel>()...};
}
template <class P, class... V>
constexpr auto numbers_of_values(type_list<V...>) {
  return std::array<value_number, sizeof...(V)>{number_of<typename P::values, V>::value...};
}
template <class P, class... E>
constexpr auto shapes_of(type_list<E...>) {
  return std::array<shape_formula, sizeof...(E)>{shape_formula_of<typename P::sizes, typename E::extents>...};
}
template <class Scalar, class Further, class... B>
constexpr auto rows_of_buffers(type_list<B...>) {
  return std::array<buffer_row, sizeof...(B)>{
      buffer_row{sizeof(storage_t<B::kind_of, Scalar>), is_optional<B> || contains<Further, B>}...};
}
template <class P, class... D>
constexpr auto rows_of_derived(type_list<D...>) {
  using Run = typename P::run;
  return std::array<derived_row<Run>, sizeof...(D)>{derived_row_of<Run, typename P::scalar, D>...};
}
template <class P, class... D>
constexpr auto sources_of(type_list<D...>) {
  return std::array<int, sizeof...(D)>{source_number<typename P::values, D>::value...};
}
template <class P, class... R>
constexpr auto memory_of_roots(type_list<R...>) {
  return std::array<int, sizeof...(R)>{position_in<typename P::values, typename memory_below<R>::type>::value...};
}
template <class Run, class... E>
constexpr auto validators_of(type_list<compute<E>...>) {
  return std::array<void (*)(Run const&), sizeof...(E)>{&validator_of<E>::template check<Run>...};
}

/// The tables of the calls that Of lists, of the lists P.
template <class P, class Of>
struct call_tables {
  using calls = typename Of::calls;
  static constexpr auto rows = rows_of_calls<typename binding_arrays<P>::repetitions, typename P::sizes>(calls{});
  static constexpr auto functions = functions_of_calls<typename P::run>(calls{});
  static constexpr auto numbers = numbers_of_values<P>(typename values_of_calls<calls>::type{});
};
/// Every call by itself.
template <class P>
struct calls_alone {
  using calls = typename P::made::calls;
};
/// The calls as they are made.
template <class P, class Single, bool Groups = groups_calls<typename P::run::backend_type>>
struct made_calls : Single {};
template <class P, class Single>
struct made_calls<P, Single, true> : call_tables<P, grouped_calls<P, Single>> {
  static constexpr std::size_t forward_calls = grouped_calls<P, Single>::forward_calls;
};

/// All of a program.
template <class Roots, class Backend, class Mode>
struct program : program_lists<Roots, Backend, Mode> {
  using lists = program_lists<Roots, Backend, Mode>;
  using bound = typename lists::bound;
  using made = typename lists::made;
  using run = typename lists::run;
  using binding = binding_arrays<lists>;
  struct single_calls : call_tables<lists, calls_alone<lists>> {
    static constexpr auto const& leaf_rows = binding::leaves;
    static constexpr auto sources = sources_of<lists>(typename lists::derived{});
    static constexpr auto forward_calls = static_cast<std::size_t>(
        program_calls<typename lists::scalar, fuse<Backend, typename lists::forward_steps>>::calls::size);
  };
  using calls = made_calls<lists, single_calls>;
  using repetitions = typename binding::repetitions;
  static constexpr auto repeats = rows_of_repeats(repetitions{});
  static constexpr auto shapes = shapes_of<lists>(typename lists::shaped{});
  static constexpr auto buffers =
      rows_of_buffers<typename lists::scalar, typename lists::fused::further>(typename made::buffers{});
  static constexpr auto derived_rows = rows_of_derived<lists>(typename lists::derived{});
  static constexpr auto surviving = memory_of_roots<lists>(typename lists::root_list{});
  static constexpr auto validators = validators_of<run>(filter<typename lists::forward_steps, is_validated>{});
  static constexpr program_functions<run> functions = {calls::functions, derived_rows, validators};
  static constexpr program_table table = {
      {binding::names,
       {contains<typename bound::mentioned, tokens>, contains<typename bound::mentioned, context_tokens>},
       binding::keys_from_context,
       binding::leaves,
       binding::checks,
       binding::reshaped,
       binding::rules},
      calls::rows,
      calls::forward_calls,
      calls::numbers,
      shapes,
      static_cast<std::size_t>(lists::seeds::size),
      buffers,
      single_calls::sources,
      surviving,
      first_of<typename lists::root_list>::type::grad,
      repeats};
};

}  // namespace headmix::detail
