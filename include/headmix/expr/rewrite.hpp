#pragma once
// SPDX-License-Identifier: MIT
// An expression with other leaves: the equations of a layer at another place of a program.

#include <algorithm>
#include <array>

#include "headmix/core/type_name.hpp"
#include "headmix/expr/leaf.hpp"

namespace headmix {

/// A name as a template argument: `use<Layer, "attn">`.
template <std::size_t Size>
struct name_text {
  char text[Size];  ///< with the zero at its end
  /// From a string literal.
  consteval name_text(char const (&name)[Size]) { std::copy_n(name, Size, text); }
};

namespace detail {
/// "Prefix.P", or "P" where the prefix is empty, and the zero at its end.
template <class P, name_text Prefix>
constexpr auto joined_name() {
  constexpr std::string_view first = Prefix.text, second = type_name<P>();
  constexpr std::size_t dot = first.empty() ? 0 : 1;
  std::array<char, first.size() + dot + second.size() + 1> joined{};
  std::copy(first.begin(), first.end(), joined.begin());
  if (dot > 0) joined[first.size()] = '.';
  std::copy(second.begin(), second.end(), joined.begin() + first.size() + dot);
  return joined;
}
template <name_text Name>
struct given_name {
  static constexpr char const* name = Name.text;
};
/// "Prefix.Name"
template <name_text Prefix, name_text Name>
inline constexpr auto name_under = joined_name<given_name<Name>, Prefix>();
}  // namespace detail

/// Leaf P of a layer that is used under a name: `attn.W_q`.
template <Leaf P, name_text Name>
struct leaf_in : P {
  /// The characters of the name.
  static constexpr auto joined = detail::joined_name<P, Name>();
  /// The name in messages and lists of parameters.
  static constexpr char const* name = joined.data();
};

namespace detail {

/// E with every leaf P replaced by Leaves::of<P>, and every operation Op by Leaves::operation<Op>.
template <class Leaves, class E>
struct rewritten {
  using type = E;  // a number
};
template <class Leaves, class E>
using rewritten_as = typename rewritten<Leaves, E>::type;

template <class Leaves, Expr E>
struct definition_in {
  using type = rewritten_as<Leaves, typename E::init>;
};
/// A rewritten let. Its name does not spell out its expression: names of expressions that mention others several times
/// would grow with every use.
template <class Leaves, Expr E>
struct let_in : let_by<definition_in<Leaves, E>> {};

template <class Leaves, Leaf P>
struct rewritten<Leaves, P> {
  using type = typename Leaves::template of<P>;
};
/// Not `applied`: `make` refuses some nodes, and its checks were done before.
template <class Leaves, class Op, class... A>
struct rewritten<Leaves, node<Op, A...>> {
  using type = node<typename Leaves::template operation<Op>, rewritten_as<Leaves, A>...>;
};
template <class Leaves, int Which, class Node>
struct rewritten<Leaves, output<Which, Node>> {
  using type = output<Which, rewritten_as<Leaves, Node>>;
};
template <class Leaves, Expr E>
requires(E::form_of == form::let) struct rewritten<Leaves, E> {
  using type = let_in<Leaves, E>;
};
template <class Leaves, class List>
struct all_rewritten;
template <class Leaves, class... E>
struct all_rewritten<Leaves, type_list<E...>> {
  using type = type_list<rewritten_as<Leaves, E>...>;
};

}  // namespace detail
}  // namespace headmix
