#pragma once
// SPDX-License-Identifier: MIT
// The rows of sizes, leaves and checks of a program, from its types. program/run/binding.hpp checks memory against
// them.

#include <array>

#include "headmix/expr/repeat.hpp"
#include "headmix/program/lower/gradient.hpp"
#include "headmix/program/table/rows.hpp"

namespace headmix {
struct random_key;
}  // namespace headmix

namespace headmix::detail {

/// True for requirements that hold for all values of dynamic sizes; `make` has checked static ones.
template <class Check>
inline constexpr bool certain = false;
template <template <class, class> class Rule, class X, class Y>
inline constexpr bool certain<Rule<X, Y>> = X::extent::value != dynamic&& Y::extent::value != dynamic;
template <class X, class Y>
inline constexpr bool certain<equal<X, Y>> = (X::extent::value != dynamic && Y::extent::value != dynamic) ||
                                             std::is_same_v<typename X::extent, typename Y::extent>;
template <class X, class Y>
inline constexpr bool certain<multiple_of<X, Y>> = Y::extent::value > 0 &&
                                                   (X::extent::value != dynamic ||
                                                    factor_of<typename X::extent, typename Y::extent>::value);

struct is_uncertain {
  template <class Check>
  static constexpr bool value = !certain<Check>;
};
/// The requirements of a number on the extents of its operation.
template <class A>
struct checks_of_operand {
  using type = type_list<>;
};
template <class A>
requires requires { typename A::requirements; }
struct checks_of_operand<A> {
  using type = typename A::requirements;
};
/// The requirements of node E that are checked when the program is bound.
template <class E>
struct checks_of {
  using type = type_list<>;
};
template <class Op, class... A>
struct checks_of<node<Op, A...>> {
  using type = filter<concat<typename Op::template checks<A...>, typename checks_of_operand<A>::type...>, is_uncertain>;
};

template <class Shape>
struct sizes_of_shape {
  using type =
      concat<named_sizes<typename Shape::rows>, named_sizes<typename Shape::cols>, named_sizes<typename Shape::count>>;
};
template <class Checks>
struct sizes_of_checks;
template <template <class, class> class... Rule, class... X, class... Y>
struct sizes_of_checks<type_list<Rule<X, Y>...>> {
  using type = concat<named_sizes<typename X::extent>..., named_sizes<typename Y::extent>...>;
};
template <class E>
struct sizes_of_number {
  using type = type_list<>;
};
template <class E>
requires requires { typename E::counted; }
struct sizes_of_number<E> {
  using type = named_sizes<typename E::counted>;
};
/// The dynamic sizes that an expression mentions.
template <class E>
using sizes_of_node =
    concat<typename sizes_of_shape<typename E::extents>::type,
           typename sizes_of_checks<typename checks_of<E>::type>::type, typename sizes_of_number<E>::type>;

/// The leaf that E reshapes, whose rows must follow each other, or none.
template <class E, form = E::form_of>
struct leaf_below {
  using type = type_list<>;
};
template <class E>
struct leaf_below<E, form::leaf> {
  using type = type_list<E>;
};
template <Alias E>
struct leaf_below<E, form::let> : leaf_below<first_in<terms<E>>> {};
template <class E>
struct reshaped_leaf {
  using type = type_list<>;
};
template <class Op, class A>
requires std::is_base_of_v<ops::reshape, Op>
struct reshaped_leaf<node<Op, A>> : leaf_below<A> {
};

template <class E>
constexpr description make_description();
template <class E>
inline constexpr description description_of = make_description<E>();
template <class Args>
struct descriptions_of;
template <class... A>
struct descriptions_of<type_list<A...>> {
  static constexpr std::array<description const*, sizeof...(A)> value = {&description_of<A>...};
};
template <class E>
constexpr description make_description() {
  if constexpr (Leaf<E> || E::form_of == form::let) {
    return {name_source<E>(), false, nullptr, 0};
  } else if constexpr (E::form_of == form::scalar_constant) {
    return {nullptr, false, nullptr, 0};
  } else if constexpr (E::form_of == form::output) {
    return make_description<operand_of<E>>();
  } else {
    auto const& args = descriptions_of<typename E::args>::value;
    return {name_source<typename E::op>(), true, args.data(), args.size()};
  }
}

template <class S>
constexpr side_description make_side() {
  if constexpr (requires { typename S::of; }) {
    return {S::text, &description_of<typename S::of>, nullptr, 0};
  } else {
    return {nullptr, nullptr, name_source<typename S::extent>(), S::extent::value};
  }
}

template <class E, class Check>
struct check_texts;
template <class E, template <class, class> class Rule, class X, class Y>
struct check_texts<E, Rule<X, Y>> {
  template <class Sizes>
  static constexpr check_row row = {formula_for<Sizes, typename X::extent>,
                                    formula_for<Sizes, typename Y::extent>,
                                    &Rule<X, Y>::holds,
                                    Rule<X, Y>::text,
                                    &description_of<E>,
                                    make_side<X>(),
                                    make_side<Y>()};
};

template <class L, class Sizes>
constexpr formula const* domain_formula() {
  if constexpr (Selection<L>) {
    return formula_for<Sizes, domain<L>>;
  } else {
    return nullptr;
  }
}

template <class Repetitions, class L>
inline constexpr int repetition_number = -1;
template <class Repetitions, RepeatedLeaf L>
inline constexpr int repetition_number<Repetitions, L> = position_in<Repetitions, typename L::repeated_by>::value;

template <class X>
inline constexpr bool is_ruled = false;
template <class X>
inline constexpr bool is_ruled<rank_share<X>> = true;
template <class X>
inline constexpr bool is_ruled<share_before<X>> = true;
template <class X>
inline constexpr bool is_ruled<over_ranks<X>> = true;
template <class Plan, class X>
inline constexpr bool is_ruled<received_rows<Plan, X>> = true;
struct has_rule {
  template <class X>
  static constexpr bool value = is_ruled<X>;
};
template <class Sizes, class X>
inline constexpr size_rule rule_of = {};
template <class Sizes, class X>
inline constexpr size_rule rule_of<Sizes, rank_share<X>> = {
    size_rule::op::share, position_in<Sizes, rank_share<X>>::value, formula_for<Sizes, X>};
template <class Sizes, class X>
inline constexpr size_rule rule_of<Sizes, share_before<X>> = {
    size_rule::op::before, position_in<Sizes, share_before<X>>::value, formula_for<Sizes, X>};
template <class Sizes, class X>
inline constexpr size_rule rule_of<Sizes, over_ranks<X>> = {
    size_rule::op::over_ranks, position_in<Sizes, over_ranks<X>>::value, formula_for<Sizes, X>};
template <class Sizes, class Plan, class X>
inline constexpr size_rule rule_of<Sizes, received_rows<Plan, X>> = {
    size_rule::op::received, position_in<Sizes, received_rows<Plan, X>>::value, formula_for<Sizes, X>};
template <class Sizes, class... X>
constexpr auto rules_of(type_list<X...>*) {
  return std::array<size_rule, sizeof...(X)>{rule_of<Sizes, X>...};
}

template <class L>
constexpr leaf_kind kind_of_leaf() {
  if constexpr (Parameter<L>) {
    return leaf_kind::parameter;
  } else if constexpr (PackedParameter<L>) {
    return leaf_kind::packed_parameter;
  } else if constexpr (ModuleBuffer<L>) {
    return leaf_kind::buffer;
  } else if constexpr (std::is_base_of_v<random_key, L>) {
    return leaf_kind::random_key;
  } else if constexpr (CacheMemory<L>) {
    return leaf_kind::cache;
  } else if constexpr (L::grad) {
    return leaf_kind::input;
  } else if constexpr (L::kind_of == kind::integer) {
    return leaf_kind::selection;
  } else {
    return leaf_kind::constant;
  }
}

template <class... X>
constexpr auto names_of_sizes(type_list<X...>*) {
  return std::array<char const*, sizeof...(X)>{name_source<X>()...};
}
/// Reads a number of leaf L; null unless its numbers must be above 0.
template <class L, class Scalar>
constexpr auto read_positive() -> double (*)(std::byte const*) {
  if constexpr (PositiveConstant<L>) {
    return [](std::byte const* at) {
      return static_cast<double>(*reinterpret_cast<storage_t<L::kind_of, Scalar> const*>(at));
    };
  } else {
    return nullptr;
  }
}
template <class Scalar, class Sizes, class Repetitions, class... L>
constexpr auto rows_of_leaves(type_list<L...>*) {
  return std::array<leaf_row, sizeof...(L)>{leaf_row{name_source<L>(), shape_formula_of<Sizes, typename L::extents>,
                                                     L::kind_of, kind_of_leaf<L>(), L::grad, domain_formula<L, Sizes>(),
                                                     repetition_number<Repetitions, L>, read_positive<L, Scalar>()}...};
}
template <class Sizes, class... E, class... Check>
constexpr auto rows_of_checks(type_list<std::pair<E, Check>...>*) {
  return std::array<check_row, sizeof...(Check)>{check_texts<E, Check>::template row<Sizes>...};
}
template <class Leaves, class... R>
constexpr auto numbers_of_leaves(type_list<R...>*) {
  return std::array<int, sizeof...(R)>{position_in<Leaves, R>::value...};
}
template <class... L>
constexpr bool any_in_context(type_list<L...>*) {
  return (is_multiple_of<rows<L>, context_tokens> || ...);
}

template <class E, class... C>
type_list<std::pair<E, C>...>* checks_with_node(type_list<C...>*);
template <class... E>
unique<concat<sizes_of_node<E>...>>* sizes_of_nodes(type_list<E...>*);
template <class... E>
auto checks_of_nodes(type_list<E...>*)
    -> concat<list_of<decltype(detail::checks_with_node<E>(detail::pack<typename checks_of<E>::type>()))>...>*;
template <class... E>
concat<typename reshaped_leaf<E>::type...>* reshaped_leaves(type_list<E...>*);
template <class Graph>
using mentioned_sizes = list_of<decltype(detail::sizes_of_nodes(detail::pack<nodes_in<Graph>>()))>;

/// The arrays of the binding table of a program P.
template <class P>
struct binding_arrays {
  using sizes = typename P::sizes;
  using leaf_list = typename P::leaves;
  using repetitions = repetitions_in<leaf_list>;
  static constexpr auto names = detail::names_of_sizes(static_cast<sizes*>(nullptr));
  static constexpr auto leaves =
      detail::rows_of_leaves<typename P::scalar, sizes, repetitions>(static_cast<leaf_list*>(nullptr));
  static constexpr auto checks = detail::rows_of_checks<sizes>(
      static_cast<list_of<decltype(detail::checks_of_nodes(detail::pack<nodes_in<typename P::graph_of>>()))>*>(
          nullptr));
  static constexpr auto rules = detail::rules_of<sizes>(static_cast<filter<sizes, has_rule>*>(nullptr));
  static constexpr auto reshaped = detail::numbers_of_leaves<leaf_list>(
      static_cast<unique<list_of<decltype(detail::reshaped_leaves(detail::pack<nodes_in<typename P::graph_of>>()))>>*>(
          nullptr));
  static constexpr bool keys_from_context = detail::any_in_context(static_cast<leaf_list*>(nullptr));
};

}  // namespace headmix::detail
