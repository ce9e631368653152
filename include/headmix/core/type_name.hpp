#pragma once
// SPDX-License-Identifier: MIT
// The name a user gave to a leaf or a size (`struct W_q : ...` -> "W_q"), for messages and parameter lists.

#include <string_view>

#include "headmix/core/config.hpp"

namespace headmix {

namespace detail {
template <class T>
constexpr char const* signature() {
  return __PRETTY_FUNCTION__;
}

constexpr std::string_view name_in(std::string_view text, bool qualified) {
  // g++: "... signature() [with T = a::b<c>::W_q; ...]", clang++: "... signature() [T = a::b<c>::W_q]"
  std::size_t const found = text.find("T = ");
  if (found == std::string_view::npos) return text;
  std::size_t const begin = found + 4;
  int depth = 0;
  std::size_t first = begin, last = begin;
  for (; last < text.size(); ++last) {
    char const c = text[last];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0 && (c == ';' || c == ']')) break;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth == 0 && c == ':' && !qualified) first = last + 1;
  }
  return text.substr(first, last - first);
}
/// Type arguments are removed from a name: those of `slope<layer<...>::heads>` would list all options of a layer.
/// Numbers stay, as in `window<8>`.
constexpr std::string_view unqualified(std::string_view text) {
  std::string_view const name = name_in(text, false);
  std::size_t const arguments = name.find('<');
  if (arguments == std::string_view::npos || arguments == 0) return name;
  std::string_view const inside = name.substr(arguments + 1);
  bool const types = inside.find("::") != std::string_view::npos || inside.find('<') != std::string_view::npos;
  return types ? name.substr(0, arguments) : name;
}
/// The full signature of a type, from which `unqualified` extracts the name. Tables hold the signature: extraction at
/// run time is free, at compile time it is not.
template <class T>
constexpr char const* name_source() {
  if constexpr (requires { T::name; }) {
    return T::name;
  } else {
    return signature<T>();
  }
}
}  // namespace detail

/// The unqualified name of a type, without template arguments that are types; a class may give another one as `static
/// constexpr char const* name`.
template <class T>
constexpr std::string_view type_name() {
  return detail::unqualified(detail::name_source<T>());
}

}  // namespace headmix
