#pragma once
// SPDX-License-Identifier: MIT
// Options of layers and routers: types in any order after the required arguments. Options of one kind share a base
// class; an equation says where one applies.

#include "headmix/expr/pointwise.hpp"

namespace headmix {

/// True when the option O is among Options.
template <class O, class... Options>
inline constexpr bool has_option = (std::is_same_v<O, Options> || ...);

/// True when the option O is of one of these kinds.
template <class O, class... Kinds>
inline constexpr bool is_option = (std::is_base_of_v<Kinds, O> || ...);

namespace detail {
template <class Kind, class Default, class... Options>
struct option {
  using type = Default;
};
template <class Kind, class Default, class H, class... T>
struct option<Kind, Default, H, T...>
    : std::conditional_t<std::is_base_of_v<Kind, H>, std::type_identity<H>, option<Kind, Default, T...>> {};
}  // namespace detail

/// The first option of this kind, or the default.
template <class Kind, class Default, class... Options>
using find_option = typename detail::option<Kind, Default, Options...>::type;

/// What an equation adds where an option is absent.
struct absent {};
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
