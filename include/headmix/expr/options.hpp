#pragma once
// SPDX-License-Identifier: MIT
// Options of layers and routers: types in any order after the required arguments. A layer lists the kinds of options
// that it takes (`accepts<...>`); an unknown, repeated or contradictory option is a compile error. A new option is
// declared (a type that derives from its kind), listed (in `accepts`) and used (in an equation).

#include "headmix/expr/pointwise.hpp"

namespace headmix {

/// Base of a kind of options; it describes itself for the tables of the documentation. Optional members:
/// - `standard`: the option that holds if none of the kind is given;
/// - `several = true`: any number of options, in the order given;
/// - `distinct = true`, beside `several`: each option once;
/// - `accepts<Option>`: whether a type is of this kind, for types that do not derive from it.
struct option_kind {
  static constexpr bool several = false;
  static constexpr bool distinct = false;
};

namespace detail {
template <class Option, class Kind>
constexpr bool is_of_kind() {
  if constexpr (requires { Kind::template accepts<Option>; }) {
    return Kind::template accepts<Option>;
  } else {
    return std::is_base_of_v<Kind, Option>;
  }
}
template <bool Ok, class Option, class Accepts>
struct unknown_option : std::true_type {
  static_assert(
      Ok,
      "headmix: there is no such option here; see 'unknown_option<..., option, accepts<...>>', and write one of "
      "the kinds that 'accepts' lists instead");
};
template <bool Ok, class... Options>
struct contradicting_options : std::true_type {
  static_assert(
      Ok,
      "headmix: two options contradict each other; see 'contradicting_options<..., first, second>', and write "
      "only one of them");
};
template <bool Ok, class... Options>
struct repeated_option : std::true_type {
  static_assert(
      Ok, "headmix: an option is given twice; see 'repeated_option<..., options...>', and write each of them once");
};
template <class List>
struct distinct_options;
template <class... Option>
struct distinct_options<type_list<Option...>>
    : repeated_option<unique<type_list<Option...>>::size == sizeof...(Option), Option...> {};
template <class Options, class Kind>
struct of_kind;
template <class... Options, class Kind>
struct of_kind<type_list<Options...>, Kind> {
  using type = concat<std::conditional_t<is_of_kind<Options, Kind>(), type_list<Options>, type_list<>>...>;
};
/// The only option of a list, or the standard option of the kind.
template <class Kind, class List>
struct option_or_standard;
template <class Kind>
struct option_or_standard<Kind, type_list<>> {
  using type = typename Kind::standard;
};
template <class Kind, class Option, class... More>
struct option_or_standard<Kind, type_list<Option, More...>> {
  using type = Option;
};
/// The first option of a list, or another type for an empty list.
template <class List, class Default>
struct first_or {
  using type = Default;
};
template <class Option, class... More, class Default>
struct first_or<type_list<Option, More...>, Default> {
  using type = Option;
};
template <class List, Index Without>
inline constexpr Index value_or = Without;
template <class Option, class... More, Index Without>
inline constexpr Index value_or<type_list<Option, More...>, Without> = Option::value;
template <class List>
struct at_most_one : std::true_type {};
template <class First, class Second, class... More>
struct at_most_one<type_list<First, Second, More...>> : contradicting_options<false, First, Second> {};
}  // namespace detail

/// Options of the kinds A and B cannot be given together.
template <class A, class B>
struct excludes {};

/// Options of kind A are refused here: Why<true> prints the reason as the text of a static assertion, and
/// Why<false>::value is true.
template <class A, template <bool Given> class Why>
struct refuses_kind {};

namespace detail {
template <class Option, class Rule>
inline constexpr bool is_refused_by = false;
template <class Option, class A, template <bool> class Why>
inline constexpr bool is_refused_by<Option, refuses_kind<A, Why>> = is_of_kind<Option, A>();
}  // namespace detail

/// The kinds of options that a layer takes, and `excludes` and `refuses_kind` rules among them.
template <class... Kinds>
struct accepts {};
namespace detail {
template <class Accepts, class... More>
struct accepting;
template <class... Kinds, class... More>
struct accepting<accepts<Kinds...>, More...> {
  using type = accepts<Kinds..., More...>;
};
}  // namespace detail
/// The kinds and rules of `Accepts`, and more.
template <class Accepts, class... More>
using and_accepts = typename detail::accepting<Accepts, More...>::type;

/// The options of a layer: `get`, `has`, `value` and `all` of a kind. Options that the layer does not accept, two of
/// one kind and two that exclude each other are compile errors.
template <class Accepts, class... Options>
struct option_set;
template <class... Kinds, class... Options>
struct option_set<accepts<Kinds...>, Options...> {
  using accepted = accepts<Kinds...>;
  using options = type_list<Options...>;
  /// The options of a kind in their order.
  template <class Kind>
  using all = typename detail::of_kind<options, Kind>::type;
  /// The option of a kind, or its standard option.
  template <class Kind>
  using get = typename detail::option_or_standard<Kind, all<Kind>>::type;
  template <class Kind>
  static constexpr bool has = all<Kind>::size > 0;
  /// The number of the option of the kind, or `Without`.
  template <class Kind, Index Without>
  static constexpr Index value = detail::value_or<all<Kind>, Without>;

 private:
  template <class Option>
  static constexpr bool is_known = (detail::is_of_kind<Option, Kinds>() || ...);
  template <class Rule>
  struct holds : std::conditional_t<Rule::several, std::true_type, detail::at_most_one<all<Rule>>> {};
  template <class Rule>
  requires(Rule::distinct) struct holds<Rule> : detail::distinct_options<all<Rule>> {
  };
  template <class A, class B>
  struct holds<excludes<A, B>>
      : detail::at_most_one<std::conditional_t<has<A> && has<B>, concat<all<A>, all<B>>, type_list<>>> {};
  template <class A, template <bool> class Why>
  struct holds<refuses_kind<A, Why>> : Why<has<A>> {};

 public:
  /// True for an option that a `refuses_kind` rule names.
  template <class Option>
  static constexpr bool is_refused = (detail::is_refused_by<Option, Kinds> || ...);

 private:
  // Types, not values: compilers take no value from a check that has failed and continue without it.
  using checked = type_list<typename detail::unknown_option<is_known<Options>, Options, accepted>::type...,
                            typename holds<Kinds>::type...>;
};

/// Stands in an equation for the term of an absent option.
struct absent {};
/// a + nothing = a.
template <Expr A>
constexpr A operator+(A a, absent) {
  return a;
}

/// `a + when<flag>(b)` is a + b with the option, and a without it.
template <bool Flag, Expr A>
constexpr auto when(A a) {
  if constexpr (Flag) {
    return a;
  } else {
    return absent{};
  }
}
/// a with the option, b without it.
template <bool Flag, Expr A, Expr B>
constexpr auto either(A a, B b) {
  if constexpr (Flag) {
    return a;
  } else {
    return b;
  }
}

}  // namespace headmix
