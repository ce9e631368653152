#pragma once
// SPDX-License-Identifier: MIT
// Extents are types. A size is a number or `dynamic`. A name given to it (`struct D : size<512> {};`) is its identity:
// two dynamic sizes of one name agree by construction; all other pairs are checked when buffers are bound.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "headmix/core/config.hpp"
#include "headmix/core/type_list.hpp"
#include "headmix/core/type_name.hpp"

namespace headmix {

/// The value of a size that is known only at run time.
inline constexpr Index dynamic = -1;

/// A size: `size<64>` or `size<dynamic>`. Derive from it to give it a name.
template <Index Value>
struct size {
  static_assert(Value >= 0 || Value == dynamic, "headmix: a size is a number from 0 or `dynamic`");
  static constexpr Index value = Value;
};

/// The number of query rows, over all sequences.
struct tokens : size<dynamic> {};
/// The number of key rows, over all sequences, if keys come from another input than queries.
struct context_tokens : size<dynamic> {};
/// The number of rows of an input with padding; `tokens` counts the valid ones.
struct padded_tokens : size<dynamic> {};
struct padded_context_tokens : size<dynamic> {};
/// The number of sequences.
struct sequences : size<dynamic> {};

template <class X>
concept Extent = __is_empty(X) && requires {
  { X::value } -> std::convertible_to<Index>;
};

/// A dynamic size and its value: `at<Layer::D>(512)`.
template <Extent X>
struct size_value {
  Index n;
};
/// Gives a dynamic size its value: `at<tokens>(7)`.
template <Extent X>
[[nodiscard]] constexpr size_value<X> at(Index n) {
  return {n};
}

template <Extent A, Extent B>
struct product {
  static constexpr Index value = dynamic;
};
/// X / Y, without remainder.
template <Extent A, Extent B>
struct quotient {
  static constexpr Index value = dynamic;
};
/// A + B: columns side by side.
template <Extent A, Extent B>
struct extent_sum {
  static constexpr Index value = A::value == dynamic || B::value == dynamic ? dynamic : A::value + B::value;
};

namespace detail {
template <class A, class B>
constexpr auto add() {
  if constexpr (A::value == 0) {
    return std::type_identity<B>{};
  } else if constexpr (B::value == 0) {
    return std::type_identity<A>{};
  } else if constexpr (A::value != dynamic && B::value != dynamic) {
    return std::type_identity<size<A::value + B::value>>{};
  } else {
    return std::type_identity<extent_sum<A, B>>{};
  }
}
}  // namespace detail
/// A + B.
template <Extent A, Extent B>
using plus = typename decltype(detail::add<A, B>())::type;

/// A - B, with B <= A.
template <Extent A, Extent B>
struct extent_difference {
  static constexpr Index value = dynamic;
};
namespace detail {
template <Index A, Index B>
inline constexpr bool is_at_least = A >= B;
template <class A, class B>
constexpr auto subtract() {
  if constexpr (A::value != dynamic && B::value != dynamic) {
    static_assert(is_at_least<A::value, B::value>,
                  "headmix: an extent is smaller than what is taken from it; see 'is_at_least<extent, taken>'");
    return std::type_identity<size<A::value - B::value>>{};
  } else {
    return std::type_identity<extent_difference<A, B>>{};
  }
}
template <class A>
constexpr auto halve() {
  if constexpr (A::value != dynamic) {
    return std::type_identity<size<A::value / 2>>{};
  } else {
    return std::type_identity<quotient<A, size<2>>>{};
  }
}
}  // namespace detail
/// A - B.
template <Extent A, Extent B>
using remaining = typename decltype(detail::subtract<A, B>())::type;
/// A / 2, rounded down.
template <Extent A>
using halved = typename decltype(detail::halve<A>())::type;

/// X + 1: the offsets of X groups.
template <Extent X>
struct plus_one {
  static constexpr Index value = X::value == dynamic ? dynamic : X::value + 1;
};

namespace detail {
template <class A, class B>
constexpr auto multiply() {
  if constexpr (A::value == 1) {
    return std::type_identity<B>{};
  } else if constexpr (B::value == 1) {
    return std::type_identity<A>{};
  } else if constexpr (A::value != dynamic && B::value != dynamic) {
    return std::type_identity<size<A::value * B::value>>{};
  } else {
    return std::type_identity<product<A, B>>{};
  }
}

template <class X, class B>
struct factor_of : std::false_type {};
template <class A, class B>
struct factor_of<product<A, B>, A> : std::true_type {
  using rest = B;
};
template <class A, class B>
struct factor_of<product<A, B>, B> : std::true_type {
  using rest = A;
};
template <class A>
struct factor_of<product<A, A>, A> : std::true_type {
  using rest = A;
};

template <Index A, Index B>
inline constexpr bool is_multiple = B > 0 && A % B == 0;
template <class A, class B>
constexpr auto divide() {
  if constexpr (B::value == 1) {
    return std::type_identity<A>{};
  } else if constexpr (std::same_as<A, B>) {
    return std::type_identity<size<1>>{};
  } else if constexpr (factor_of<A, B>::value) {
    return std::type_identity<typename factor_of<A, B>::rest>{};
  } else if constexpr (A::value != dynamic && B::value != dynamic) {
    static_assert(is_multiple<A::value, B::value>,
                  "headmix: an extent is not a multiple of the other one; see 'is_multiple<extent, divisor>'");
    return std::type_identity<size<A::value / B::value>>{};
  } else {
    return std::type_identity<quotient<A, B>>{};
  }
}
}  // namespace detail

/// A * B, e.g. `times<K, tokens>`: K rows per token.
template <Extent A, Extent B>
using times = typename decltype(detail::multiply<A, B>())::type;
/// A / B without remainder.
template <Extent A, Extent B>
using over = typename decltype(detail::divide<A, B>())::type;

/// A static extent without its name: code for equal numbers is instantiated once.
template <Extent X>
using unnamed = std::conditional_t<X::value == dynamic, X, size<X::value == dynamic ? 0 : X::value>>;

/// False if both numbers are known and differ. The compiler prints both.
template <Index Found, Index Expected>
inline constexpr bool extents_agree = Found == Expected || Found == dynamic || Expected == dynamic;

// ---- sizes of programs on several ranks (contract/communicator.hpp); otherwise there is one rank ----

namespace detail {
/// "Prefix X", and the zero at its end.
template <class X, std::size_t Size>
constexpr auto prefixed_name(char const (&prefix)[Size]) {
  constexpr std::string_view name = type_name<X>();
  std::array<char, Size + 1 + name.size()> text{};
  std::copy_n(prefix, Size - 1, text.begin());
  text[Size - 1] = ' ';
  std::copy(name.begin(), name.end(), text.begin() + Size);
  return text;
}
}  // namespace detail

/// The number of ranks.
struct rank_count : size<dynamic> {};
/// This rank's share of X, whose elements are divided among the ranks in order: see share_of.
template <Extent X>
struct rank_share : size<dynamic> {
  using whole = X;
  /// The characters of the name.
  static constexpr auto text = detail::prefixed_name<X>("this rank's");
  /// The name in messages.
  static constexpr char const* name = text.data();
};
/// The number of elements of X on the ranks before this one.
template <Extent X>
struct share_before : size<dynamic> {
  using whole = X;
};
/// The sum of X over all ranks, taken at the beginning of a forward pass.
template <Extent X>
struct over_ranks : size<dynamic> {
  using each = X;
  /// The characters of the name.
  static constexpr auto text = detail::prefixed_name<X>("all ranks'");
  /// The name in messages.
  static constexpr char const* name = text.data();
};
/// The number of rows received from other ranks by a plan (expr/distributed/exchange.hpp), at most Most. Known once the
/// plan is made.
template <class Plan, Extent Most>
struct received_rows : size<dynamic> {
  using most = Most;
  /// The name in messages.
  static constexpr char const* name = "received_rows";
};

namespace detail {
template <class X>
struct sizes_below {
  using type = std::conditional_t<X::value == dynamic, type_list<X>, type_list<>>;
};
template <class A, class B>
struct sizes_below<product<A, B>> {
  using type = concat<typename sizes_below<A>::type, typename sizes_below<B>::type>;
};
template <class A, class B>
struct sizes_below<quotient<A, B>> : sizes_below<product<A, B>> {};
template <class A, class B>
struct sizes_below<extent_sum<A, B>> : sizes_below<product<A, B>> {};
template <class A, class B>
struct sizes_below<extent_difference<A, B>> : sizes_below<product<A, B>> {};

template <class X>
struct sizes_below<plus_one<X>> : sizes_below<X> {};
template <class X>
struct sizes_below<rank_share<X>> {
  using type = concat<typename sizes_below<X>::type, type_list<rank_count, rank_share<X>, share_before<X>>>;
};
template <class X>
struct sizes_below<share_before<X>> : sizes_below<rank_share<X>> {};
template <class X>
struct sizes_below<over_ranks<X>> {
  using type = concat<typename sizes_below<X>::type, type_list<rank_count, over_ranks<X>>>;
};
template <class Plan, class X>
struct sizes_below<received_rows<Plan, X>> {
  using type = concat<typename sizes_below<X>::type, type_list<received_rows<Plan, X>>>;
};

template <class X, class Unit>
struct multiple_of_unit : std::is_same<X, Unit> {};
template <class A, class B, class Unit>
struct multiple_of_unit<quotient<A, B>, Unit> : multiple_of_unit<A, Unit> {};
template <class A, class B, class Unit>
struct multiple_of_unit<product<A, B>, Unit>
    : std::bool_constant<multiple_of_unit<A, Unit>::value || multiple_of_unit<B, Unit>::value> {};
}  // namespace detail

/// The sizes that must be known before X.
template <Extent X>
using named_sizes = typename detail::sizes_below<X>::type;

/// True if X is a multiple of Unit (`tokens`, `context_tokens`, `sequences`).
template <Extent X, Extent Unit>
inline constexpr bool is_multiple_of = detail::multiple_of_unit<X, Unit>::value;

namespace rules {
/// Both extents are the same.
struct equal {
  using rule = equal;  ///< for messages
  static constexpr bool holds(Index x, Index y) { return x == y; }
  static constexpr char const* text = "must equal";
};
/// The first extent is at most the second.
struct at_most {
  using rule = at_most;  ///< for messages
  static constexpr bool holds(Index x, Index y) { return x <= y; }
  static constexpr char const* text = "must be at most";
};
/// The first extent is smaller than the second.
struct less_than {
  using rule = less_than;  ///< for messages
  static constexpr bool holds(Index x, Index y) { return x < y; }
  static constexpr char const* text = "must be less than";
};
/// The first extent is a multiple of the second.
struct multiple_of {
  using rule = multiple_of;  ///< for messages
  static constexpr bool holds(Index x, Index y) { return y > 0 && x % y == 0; }
  static constexpr char const* text = "must be a multiple of";
};
}  // namespace rules

/// A requirement of an operation on its operands, with the names of both sides for the message.
template <class X, class Y>
struct equal : rules::equal {};
template <class X, class Y>
struct at_most : rules::at_most {};
template <class X, class Y>
struct less_than : rules::less_than {};
template <class X, class Y>
struct multiple_of : rules::multiple_of {};

}  // namespace headmix
