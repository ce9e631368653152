#pragma once
// SPDX-License-Identifier: MIT
// Expressions and sizes in words, for messages.

#include <algorithm>
#include <string>

#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/expr/extent.hpp"

namespace headmix::detail {

/// A leaf, a named value or an operation on others; a number has no name.
struct description {
  char const* name_source;
  bool is_operation;
  description const* const* args;
  std::size_t count;
};

/// Names and operations, two levels deep. names(source) is the name of a leaf.
template <class Names>
std::string describe(description const& e, Names const& names, int depth = 2) {
  if (e.name_source == nullptr) return "number";
  if (!e.is_operation) return std::string(names(e.name_source));
  std::string text(unqualified(e.name_source));
  text.resize((std::min)(text.find('<'), text.size()));  // without template arguments
  if (depth == 0) return text + "(...)";
  text += '(';
  for (std::size_t i = 0; i < e.count; ++i) text += (i == 0 ? "" : ", ") + describe(*e.args[i], names, depth - 1);
  return text + ')';
}

/// One side of a check: an extent of an expression, or a size.
struct side_description {
  char const* extent;       ///< which one, null for a size
  description const* of;    ///< the expression
  char const* name_source;  ///< of the size
  Index value;              ///< of a static size, which is its name
};
template <class Names>
std::string describe(side_description const& s, Names const& names) {
  if (s.of != nullptr) return message(s.extent, " of ", describe(*s.of, names));
  if (s.value != dynamic) return message("size ", s.value);
  return message("size ", unqualified(s.name_source));
}

}  // namespace headmix::detail
