#pragma once
// SPDX-License-Identifier: MIT
// The options of a layer as a table for its documentation.

#include <string>

#include "headmix/expr/options.hpp"

namespace headmix {

namespace detail {
template <class Kind>
std::string row_of_option() {
  if constexpr (requires { Kind::syntax; }) {
    return std::string("| `") + Kind::syntax + "` | " + Kind::meaning + " | " + Kind::without + " |\n";
  } else {
    return {};  // a rule among kinds
  }
}
}  // namespace detail

/// The options of a layer, router or expert, one row each, in Markdown: syntax, meaning, and default.
template <class... Kinds>
std::string options_table(accepts<Kinds...>) {
  return "| option | meaning | without it |\n|---|---|---|\n" + (detail::row_of_option<Kinds>() + ...);
}

}  // namespace headmix
