#pragma once
// SPDX-License-Identifier: MIT
// The type lists of a program: steps, calls and values. They are aliases and not members, since debug information
// spells out members, see core/type_list.hpp.

#include "headmix/program/lower/binding_table.hpp"
#include "headmix/program/lower/fuse.hpp"
#include "headmix/program/lower/gradient.hpp"

namespace headmix::detail {

/// A program: its roots, backend and mode, and its short lists.
template <class Roots, class Backend, class Mode>
struct program_parts {
  using roots = Roots;
  using backend = Backend;
  using scalar = typename Backend::scalar;
  using graph_of = graph<Roots, Mode>;
  using leaves = leaves_of<Roots>;
  using sizes = unique<concat<builtin_sizes, mentioned_sizes<graph_of>>>;
  using run = sized_context<sizes, Backend>;
};

template <class Scalar, class... S>
concat<typename calls_of<S, Scalar>::type...>* calls_of_steps(type_list<S...>*);
template <class Scalar, class... S>
concat<typename calls_of<S, Scalar>::buffers...>* buffers_of_steps(type_list<S...>*);
template <class... C>
concat<values_of_call<C>...>* values_of_calls(type_list<C...>*);
/// The outputs and operands of a list of calls.
template <class Calls>
using values_of = list_of<decltype(detail::values_of_calls(detail::pack<Calls>()))>;

template <class E>
concept IsView = requires {
  requires E::form_of == form::view;
};
template <bool IsView>
struct derive {
  template <class E>
  using from = type_list<E>;
};
/// The values that need no kernel, sources first: views, numbers, and expressions of which only the extents are read.
template <class E>
using derived_for = typename derive<IsView<E>>::template from<E>;
template <>
struct derive<true> {
  template <class E>
  using from = concat<derived_for<memory_of<source_of<E>>>, type_list<E>>;
};
template <class E>
E* without_extents(E*);
template <class E>
E* without_extents(extents_of<E>*);
template <class E>
using value_read = list_of<decltype(detail::without_extents(detail::pack<E>()))>;
template <class... E>
type_list<value_read<E>...>* values_read(type_list<E...>*);
template <class... E>
concat<derived_for<E>...>* all_derived(type_list<E...>*);
/// The types E that are not in Stored, once each.
template <class Stored, class... E>
unique<concat<kept<!contains<Stored, E>, E>...>>* not_stored(type_list<E...>*);

template <class... R>
type_list<output_gradient<R>...>* output_gradients_of(type_list<R...>*);
template <class... L>
type_list<gradient_of_leaf<L>...>* leaf_gradients(type_list<L...>*);

template <class P>
using roots_in = typename P::roots::list;
/// The roots that have a gradient.
template <class P>
using objective_in = filter<roots_in<P>, has_gradient>;
template <class P>
using forward_steps_in = schedule<type_list<>, roots_in<P>>;
/// The steps of the forward pass, then of the backward pass.
template <class P>
using steps_in = schedule_gradients<forward_steps_in<P>, typename P::graph_of>;
/// The calls of a list of steps, without groups.
template <class P, class Steps>
using calls_by =
    list_of<decltype(detail::calls_of_steps<typename P::scalar>(detail::pack<fuse<typename P::backend, Steps>>()))>;
template <class P>
using calls_in = calls_by<P, steps_in<P>>;
template <class P>
using buffers_in = list_of<decltype(detail::buffers_of_steps<typename P::scalar>(
    detail::pack<fuse<typename P::backend, steps_in<P>>>()))>;
template <class P>
using output_gradients_in = list_of<decltype(detail::output_gradients_of(detail::pack<objective_in<P>>()))>;
/// The values that have memory of their own.
template <class P>
using stored_in =
    concat<typename P::leaves, list_of<decltype(detail::leaf_gradients(detail::pack<typename P::leaves>()))>,
           output_gradients_in<P>, buffers_in<P>>;
template <class P>
using derived_in = list_of<decltype(detail::not_stored<stored_in<P>>(
    detail::all_derived(detail::values_read(detail::pack<values_of<calls_in<P>>>()))))>;
/// All values, in the order of their numbers.
template <class P>
using values_in = concat<stored_in<P>, derived_in<P>>;

}  // namespace headmix::detail
