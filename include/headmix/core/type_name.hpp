#pragma once
// SPDX-License-Identifier: MIT
// The name a user gave to a leaf or a size (`struct W_q : ...` -> "W_q"), for messages and parameter lists.

#include <string_view>

#include "headmix/core/config.hpp"

namespace headmix {

namespace detail {
template <class T>
constexpr std::string_view signature() {
  return __PRETTY_FUNCTION__;
}

constexpr std::string_view unqualified(std::string_view text) {
  // g++: "... signature() [with T = a::b<c>::W_q; ...]", clang++: "... signature() [T = a::b<c>::W_q]"
  std::size_t const begin = text.find("T = ") + 4;
  int depth = 0;
  std::size_t first = begin, last = begin;
  for (; last < text.size(); ++last) {
    char const c = text[last];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (depth == 0 && (c == ';' || c == ']')) break;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth == 0 && c == ':') first = last + 1;
  }
  return text.substr(first, last - first);
}
}  // namespace detail

/// The unqualified name of a type; a class may give another one as `static constexpr char const* name`.
template <class T>
constexpr std::string_view type_name() {
  if constexpr (requires { T::name; }) {
    return T::name;
  } else {
    return detail::unqualified(detail::signature<T>());
  }
}

}  // namespace headmix
