#pragma once
// SPDX-License-Identifier: MIT
// Options of layers and routers: types in any order after the required arguments. An equation says where one applies.

#include "headmix/expr/pointwise.hpp"

namespace headmix {

/// True when the option O is among Options.
template <class O, class... Options>
inline constexpr bool has_option = (std::is_same_v<O, Options> || ...);

namespace detail {
template <template <class> class Is, class Default, class... Options>
struct option {
  using type = Default;
};
template <template <class> class Is, class Default, class H, class... T>
struct option<Is, Default, H, T...>
    : std::conditional_t<Is<H>::value, std::type_identity<H>, option<Is, Default, T...>> {};
}  // namespace detail

/// The first option of its kind, or the default: `Is<O>::value` tells the kind.
template <template <class> class Is, class Default, class... Options>
using find_option = typename detail::option<Is, Default, Options...>::type;

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
