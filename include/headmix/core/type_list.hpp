#pragma once
// SPDX-License-Identifier: MIT
// Lists of types, the representation of programs. Membership in a list is a base-class test, without pairwise
// instantiation.

#include <type_traits>
#include <utility>

#include "headmix/core/config.hpp"

namespace headmix {

/// A list of types.
template <class... T>
struct type_list {
  static constexpr int size = sizeof...(T);
};

namespace detail {

// With -g a compiler spells out the name of every class template that it completes, without it that of every function
// with a body, and lists are long. So properties of lists are functions of pointers to them that are only declared, and
// aliases in classes of short names. The functions are called by qualified names: a search by argument would complete
// the list and all its types, and so would a conversion to a pointer to another list.

/// Only declared: an argument from which a function deduces the types of list L.
template <class L>
L* pack();
template <class L>
L listed(L*);
template <class Pack>
Pack result_of_pack();
/// The list that a function of packs returned a pointer to.
template <class Pack>
using list_of = decltype(detail::listed(detail::result_of_pack<Pack>()));

template <bool Condition>
struct choose {
  template <class A, class>
  using type = A;
};
template <>
struct choose<false> {
  template <class, class B>
  using type = B;
};
/// A where the condition holds, else B, none of which is completed.
template <bool Condition, class A, class B>
using either = typename choose<Condition>::template type<A, B>;

template <class... T>
std::integral_constant<int, sizeof...(T)> count_types(type_list<T...>*);
template <class H, class... T>
H first_type(type_list<H, T...>*);

template <class T>
struct tagged {};
template <class L>
struct tags;
template <class... T>
struct tags<type_list<T...>> : tagged<T>... {};

template <int Which, class T>
struct at_position {};
template <class Which, class L>
struct positions;
template <int... Which, class... T>
struct positions<std::integer_sequence<int, Which...>, type_list<T...>> : at_position<Which, T>... {};
template <class T, int Which>
std::integral_constant<int, Which> position_of(at_position<Which, T> const*);
template <int Which, class T>
T type_at(at_position<Which, T> const*);
template <class L>
using positions_in =
    positions<std::make_integer_sequence<int, decltype(detail::count_types(detail::pack<L>()))::value>, L>;

/// Joins `Lists` lists, eight at a time: compilers bound how deep instantiations are nested, nvcc 13 at 200.
template <std::size_t Lists>
struct join {
  template <class... A, class... B, class... C, class... D, class... E, class... F, class... G, class... H, class... L>
  static auto all(type_list<A...>*, type_list<B...>*, type_list<C...>*, type_list<D...>*, type_list<E...>*,
                  type_list<F...>*, type_list<G...>*, type_list<H...>*, L*...)
      -> decltype(join<Lists - 7>::all(detail::pack<type_list<A..., B..., C..., D..., E..., F..., G..., H...>>(),
                                       static_cast<L*>(nullptr)...));
};
template <std::size_t Lists>
requires(2 <= Lists && Lists < 8) struct join<Lists> {
  template <class... A, class... B, class... L>
  static auto all(type_list<A...>*, type_list<B...>*, L*...)
      -> decltype(join<Lists - 1>::all(detail::pack<type_list<A..., B...>>(), static_cast<L*>(nullptr)...));
};
template <>
struct join<1> {
  template <class L>
  static L* all(L*);
};
template <>
struct join<0> {
  static type_list<>* all();
};

#ifdef __clang__
// clang++ refuses fold expressions over more than 256 types, which g++ takes 5 % less time for.
template <std::size_t Count>
constexpr bool any_of(bool const (&values)[Count]) {
  for (bool const v : values) {
    if (v) return true;
  }
  return false;
}
template <class T, class... L>
using is_one_of = std::bool_constant<detail::any_of({false, __is_same(L, T)...})>;
#else
template <class T, class... L>
using is_one_of = std::bool_constant<(__is_same(L, T) || ...)>;
#endif
/// True in a list that grows, where `contains` would cost a class for each length.
template <class T, class... L>
is_one_of<T, L...> is_among(type_list<L...>*);
template <class T, class... L>
type_list<L..., T>* append(type_list<L...>*);
template <class T, class... L>
either<is_one_of<T, L...>::value, type_list<L...>, type_list<L..., T>>* append_new(type_list<L...>*);
template <class L, class T>
using appended_new = list_of<decltype(detail::append_new<T>(detail::pack<L>()))>;

/// Appends `Count` types that are not there yet, four at a time.
template <std::size_t Count>
struct append_each {
  template <class L, class A, class B, class C, class D, class... T>
  static auto to(type_list<A, B, C, D, T...>*)
      -> decltype(append_each<Count - 4>::template to<appended_new<appended_new<appended_new<appended_new<L, A>, B>, C>,
                                                                   D>>(detail::pack<type_list<T...>>()));
};
template <std::size_t Count>
requires(0 < Count && Count < 4) struct append_each<Count> {
  template <class L, class A, class... T>
  static auto to(type_list<A, T...>*)
      -> decltype(append_each<Count - 1>::template to<appended_new<L, A>>(detail::pack<type_list<T...>>()));
};
template <>
struct append_each<0> {
  template <class L>
  static L* to(type_list<>*);
};

template <bool Keep, class T>
using kept = either<Keep, type_list<T>, type_list<>>;

/// Number of types in the list, an integral constant.
template <class L>
using count_of_types = decltype(detail::count_types(detail::pack<L>()));

/// True when T is in the list, whose types are distinct.
template <class L, class T>
concept contains = __is_base_of(detail::tagged<T>, detail::tags<L>);

/// The list with T at its end, unless T is there already.
template <class L, class T>
using push_unique = detail::appended_new<L, T>;

/// The list without repetitions.
template <class L>
using unique = detail::list_of<decltype(detail::append_each<static_cast<std::size_t>(
                                            count_of_types<L>::value)>::template to<type_list<>>(detail::pack<L>()))>;

}  // namespace detail

/// The elements of all lists.
template <class... L>
using concat = detail::list_of<decltype(detail::join<sizeof...(L)>::all(detail::pack<L>()...))>;

namespace detail {
template <class Keep, class... T>
concat<kept<Keep::template value<T>, T>...>* filtered(type_list<T...>*);

/// The elements T of the list for which Keep::value<T>.
template <class L, class Keep>
using filter = detail::list_of<decltype(detail::filtered<Keep>(detail::pack<L>()))>;

/// The first type of the list.
template <class L>
using first_in = decltype(detail::first_type(detail::pack<L>()));

/// The position of T in the list, whose types are distinct, an integral constant.
template <class L, class T>
using position_in = decltype(detail::position_of<T>(static_cast<detail::positions_in<L> const*>(nullptr)));

}  // namespace detail

/// The type at a position of the list.
template <int Position, class L>
using nth = decltype(detail::type_at<Position>(static_cast<detail::positions_in<L> const*>(nullptr)));

namespace detail {
template <class L, int... Which>
type_list<nth<static_cast<int>(sizeof...(Which)) - 1 - Which, L>...>* reversed(std::integer_sequence<int, Which...>);

/// The elements from the last to the first, of a list whose types are distinct.
template <class L>
using reverse =
    detail::list_of<decltype(detail::reversed<L>(std::make_integer_sequence<int, count_of_types<L>::value>{}))>;
}  // namespace detail

/// Calls `f.template operator()<T>()` for every T of the list, in order.
template <class... T, class F>
constexpr void for_each(type_list<T...>, F&& f) {
  (f.template operator()<T>(), ...);
}

}  // namespace headmix
