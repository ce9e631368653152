#pragma once
// SPDX-License-Identifier: MIT
// Expressions and sizes in words, for messages.

#include <string>

#include "headmix/core/error.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/program/steps.hpp"

namespace headmix::detail {

/// A short description of an expression, for messages: names and operations, two levels deep.
template <class E>
std::string describe(int depth = 2) {
  if constexpr (Leaf<E> || E::form_of == form::let) {
    return std::string(type_name<E>());
  } else if constexpr (E::form_of == form::immediate) {
    return "number";
  } else if constexpr (E::form_of == form::output) {
    return describe<operand_of<E>>(depth);
  } else {
    std::string text(type_name<typename E::op>());
    if (std::size_t const template_arguments = text.find('<'); template_arguments != std::string::npos)
      text.resize(template_arguments);
    if (depth == 0) return text + "(...)";
    text += '(';
    bool first = true;
    for_each(typename E::args{}, [&]<class A>() {
      if (!first) text += ", ";
      first = false;
      text += describe<A>(depth - 1);
    });
    return text + ')';
  }
}

template <class X>
std::string describe_extent() {
  if constexpr (X::value != dynamic) {
    return std::to_string(X::value);
  } else {
    return std::string(type_name<X>());
  }
}
/// One side of a check.
template <class S>
std::string describe_side() {
  if constexpr (requires { typename S::of; }) {
    return message(S::text, " of ", describe<typename S::of>());
  } else {
    return message("size ", describe_extent<typename S::extent>());
  }
}

}  // namespace headmix::detail
