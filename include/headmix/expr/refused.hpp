#pragma once
// SPDX-License-Identifier: MIT
// What stands for an expression that the compiler has refused, and how it says why: in the first error, with the user's
// own names and numbers. Whatever is made of such an expression is one again, so nothing else is reported.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "headmix/core/scalar.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/expr/extent.hpp"

namespace headmix::detail {

/// A base of what was refused.
struct refusal {};
template <class E>
concept Refused = __is_base_of(refusal, E);
/// A base of a name for Definition::type.
template <class Definition>
struct refusal_of {};
template <class Definition>
requires Refused<typename Definition::type>
struct refusal_of<Definition> : refusal {
};

/// A text that is put together when it is compiled.
struct compiled_text {
  char text[1000] = {};
  std::size_t size = 0;

  constexpr compiled_text& operator<<(std::string_view part) {
    for (char const c : part.substr(0, sizeof(text) - 1 - size)) text[size++] = c;
    return *this;
  }
  constexpr compiled_text& operator<<(Index n) {
    char digits[24] = {};
    std::size_t count = 0;
    for (Index rest = n < 0 ? -n : n; count == 0 || rest > 0; rest /= 10) {
      digits[count++] = static_cast<char>('0' + rest % 10);
    }
    if (n < 0) *this << "-";
    while (count > 0) *this << std::string_view(digits + --count, 1);
    return *this;
  }
};
/// A text as a template argument, as which GCC prints it.
template <std::size_t Size>
struct printed {
  char text[Size] = {};
};
/// The text of Message::text().
template <class Message>
consteval auto printed_text() {
  constexpr compiled_text all = Message::text();
  printed<all.size + 1> exact;
  std::copy_n(all.text, all.size, exact.text);
  return exact;
}
/// An incomplete type: where it has to be complete, GCC prints its name, which is the text.
template <printed Text>
struct refused_because;

/// The name of a leaf, a let or an operation: "W_q", "softmax".
template <class E>
constexpr std::string_view name_of_value() {
  if constexpr (requires { typename E::op; }) {
    return type_name<typename E::op>();
  } else {
    return type_name<E>();
  }
}
/// "rows of W_q = 6", or "6" of a size alone.
template <class Side>
constexpr void say_side(compiled_text& text) {
  if constexpr (requires { typename Side::of; }) {
    text << Side::text << " of " << name_of_value<typename Side::of>() << " = ";
  }
  text << Side::extent::value;
}
/// An operation of the operands A whose rule says that extent X is not as Y asks.
template <class Op, class Rule, class X, class Y, class... A>
struct extents_message {
  static constexpr compiled_text text() {
    compiled_text all;
    all << "headmix: " << type_name<Op>() << "(";
    std::size_t n = 0;
    ((all << (n++ == 0 ? "" : ", ") << name_of_value<A>()), ...);
    all << "): ";
    say_side<X>(all);
    all << " " << Rule::text << " ";
    say_side<Y>(all);
    return all << Op::hint;
  }
};

}  // namespace headmix::detail
