#pragma once
// SPDX-License-Identifier: MIT
// Stands for an expression that the compiler has refused. Its first error has the reason with the user's names and
// numbers; an operation on a refused expression is refused silently.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "headmix/core/scalar.hpp"
#include "headmix/core/type_name.hpp"
#include "headmix/expr/extent.hpp"

namespace headmix::detail {

/// Base of refused expressions.
struct refusal {};
template <class E>
concept Refused = __is_base_of(refusal, E);
/// Base of a name for Definition::type.
template <class Definition>
struct refusal_of {};
template <class Definition>
requires Refused<typename Definition::type>
struct refusal_of<Definition> : refusal {
};

/// A text composed at compile time.
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
/// A text as a template argument, which GCC prints.
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
/// An incomplete type: if it has to be complete, GCC prints its name, which contains the text.
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
/// The message about operands A of an operation whose extents X and Y break a rule.
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
