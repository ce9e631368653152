#pragma once
// SPDX-License-Identifier: MIT
// Lists of types: a program is one. Membership is a base-class test, so it costs no pairwise instantiation. What is
// said of long lists are types and concepts, not variables: compilers spell out the names of those.

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
std::type_identity<T> type_at(at_position<Which, T> const*);
template <class L>
using positions_in = positions<std::make_integer_sequence<int, L::size>, L>;

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
template <class... A, class... B>
struct joined<type_list<A...>, type_list<B...>> {
  using type = type_list<A..., B...>;
};
template <class... A, class... B, class... C, class... L>
struct joined<type_list<A...>, type_list<B...>, type_list<C...>, L...> : joined<type_list<A..., B..., C...>, L...> {};
/// Eight at a time: each step names all lists that are left.
template <class... A, class... B, class... C, class... D, class... E, class... F, class... G, class... H, class... L>
struct joined<type_list<A...>, type_list<B...>, type_list<C...>, type_list<D...>, type_list<E...>, type_list<F...>,
              type_list<G...>, type_list<H...>, L...>
    : joined<type_list<A..., B..., C..., D..., E..., F..., G..., H...>, L...> {};

template <class L>
struct reversed {
  using type = type_list<>;
};
template <class H, class... T>
struct reversed<type_list<H, T...>> : joined<typename reversed<type_list<T...>>::type, type_list<H>> {};
}  // namespace detail

/// True when T is in the list (whose types are distinct).
template <class L, class T>
concept contains = __is_base_of(detail::tagged<T>, detail::tags<L>);

/// The list with T at its end, unless T is there already.
template <class L, class T>
using push_unique = typename std::conditional_t<contains<L, T>, std::type_identity<L>, detail::append<L, T>>::type;

namespace detail {
template <class L, class... T>
struct united {
  using type = L;
};
template <class L, class H, class... T>
struct united<L, H, T...> : united<push_unique<L, H>, T...> {};
/// Four at a time: nvcc 13 follows 200 instantiations inside of each other.
template <class L, class A, class B, class C, class D, class... T>
struct united<L, A, B, C, D, T...> : united<push_unique<push_unique<push_unique<push_unique<L, A>, B>, C>, D>, T...> {};
template <class L>
struct distinct;
template <class... T>
struct distinct<type_list<T...>> : united<type_list<>, T...> {};
}  // namespace detail

/// The list without repetitions.
template <class L>
using unique = typename detail::distinct<L>::type;

/// The elements of all lists.
template <class... L>
using concat = typename detail::joined<L...>::type;

namespace detail {
template <bool Keep>
struct kept {
  template <class T>
  using type = type_list<T>;
};
template <>
struct kept<false> {
  template <class>
  using type = type_list<>;
};
template <class L, class Keep>
struct filtered;
template <class... T, class Keep>
struct filtered<type_list<T...>, Keep> {
  using type = concat<typename kept<Keep::template value<T>>::template type<T>...>;
};
}  // namespace detail

/// The elements from the last to the first.
template <class L>
using reverse = typename detail::reversed<L>::type;

/// The elements T of the list for which Keep::value<T>.
template <class L, class Keep>
using filter = typename detail::filtered<L, Keep>::type;

/// Where T stands in the list, an integral constant.
template <class L, class T>
using position_in = decltype(detail::position_of<T>(static_cast<detail::positions_in<L> const*>(nullptr)));

/// What stands at a position of the list.
template <int Position, class L>
using nth = typename decltype(detail::type_at<Position>(static_cast<detail::positions_in<L> const*>(nullptr)))::type;

/// Calls `f.template operator()<T>()` for every T of the list, in order.
template <class... T, class F>
constexpr void for_each(type_list<T...>, F&& f) {
  (f.template operator()<T>(), ...);
}

}  // namespace headmix
