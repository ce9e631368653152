#pragma once
// SPDX-License-Identifier: MIT
// Lists of types: a program is one. Membership is a base-class test, so it costs no pairwise instantiation.

#include <type_traits>
#include <utility>

#include "headmix/core/config.hpp"

namespace headmix {

template <class... T>
struct type_list {
  static constexpr int size = sizeof...(T);
};

namespace detail {
template <class T>
struct tagged {};
template <class L>
struct tags;
template <class... T>
struct tags<type_list<T...>> : tagged<T>... {};

template <int I, class T>
struct at_position {};
template <class I, class L>
struct positions;
template <int... I, class... T>
struct positions<std::integer_sequence<int, I...>, type_list<T...>> : at_position<I, T>... {};
template <class T, int I>
constexpr int position_of(at_position<I, T> const*) {
  return I;
}

template <class L, class T>
struct append;
template <class... L, class T>
struct append<type_list<L...>, T> {
  using type = type_list<L..., T>;
};

template <class... L>
struct joined {
  using type = type_list<>;
};
template <class... A>
struct joined<type_list<A...>> {
  using type = type_list<A...>;
};
template <class... A, class... B, class... L>
struct joined<type_list<A...>, type_list<B...>, L...> : joined<type_list<A..., B...>, L...> {};

template <class L>
struct reversed {
  using type = type_list<>;
};
template <class H, class... T>
struct reversed<type_list<H, T...>> : joined<typename reversed<type_list<T...>>::type, type_list<H>> {};
}  // namespace detail

/// True when T is in the list (whose types are distinct).
template <class L, class T>
inline constexpr bool contains = std::is_base_of_v<detail::tagged<T>, detail::tags<L>>;

/// The list with T at its end, unless T is there already.
template <class L, class T>
using push_unique = typename std::conditional_t<contains<L, T>, std::type_identity<L>, detail::append<L, T>>::type;

template <class... L>
using concat = typename detail::joined<L...>::type;

template <class L>
using reverse = typename detail::reversed<L>::type;

/// Where T stands in the list.
template <class L, class T>
inline constexpr int position_in =
    detail::position_of<T>(static_cast<detail::positions<std::make_integer_sequence<int, L::size>, L> const*>(nullptr));

/// Calls f.template operator()<T>() for every T of the list, in order.
template <class... T, class F>
constexpr void for_each(type_list<T...>, F&& f) {
  (f.template operator()<T>(), ...);
}

}  // namespace headmix
