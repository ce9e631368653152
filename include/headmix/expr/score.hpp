#pragma once
// SPDX-License-Identifier: MIT
// Score maps: pointwise expressions that change the scores of attention before the softmax. Their gradients are derived
// from the vjp of the operations, and no matrix of queries x keys is stored.
//
//   struct far_is_less : score_map {  // a learned slope for each head
//     template <Extent Heads> struct slope : bias_param<Heads> {};
//     static constexpr auto f(auto s, auto heads) {
//       return s - slope<decltype(heads)>{} * abs(query_position{} - key_position{});
//     }
//   };
//   attention<causal, heads>(q, k, v, far_is_less{}, soft_cap<30>{});

#include "headmix/contract/score_steps.hpp"
#include "headmix/expr/pointwise.hpp"

namespace headmix {

namespace detail {
/// A number of each pair of a query and a key, known to attention.
struct score_symbol {
  using args = type_list<>;
  using extents = shape<size<1>, size<1>>;
  static constexpr kind kind_of = kind::accumulator;
  static constexpr form form_of = form::scalar_constant;
  static constexpr bool grad = false;
  template <class T, class Run>
  static constexpr T value(Run const&) {
    static_assert(std::is_void_v<Run>,
                  "headmix: query_position, key_position and head_index mean something in a score map only");
    return T(0);
  }
};
/// The score before maps: scale q k^T + bias.
struct score_before : score_symbol {
  using step = score_step::score;
};
}  // namespace detail

/// The query's position in its sequence, as masks count it (contract/position.hpp). For score maps.
struct query_position : detail::score_symbol {
  using step = score_step::query_position;
};
/// The key's position in its sequence, as masks count it. For score maps.
struct key_position : detail::score_symbol {
  using step = score_step::key_position;
};
/// The number of the query's head, from 0; in Moa, of the expert. For score maps.
struct head_index : detail::score_symbol {
  using step = score_step::head;
};

/// Base of score maps.
struct score_map {};

/// An empty struct that derives from `score_map`. `f(s)`, or `f(s, heads)` with the number of heads as an extent,
/// returns the new score: a pointwise expression of the score s, of query_position, key_position and head_index, of
/// numbers, and of operands, which are expressions [1, 1] or [1, heads] and receive gradients. Hidden scores stay
/// hidden.
template <class M>
concept ScoreMap = std::is_base_of_v<score_map, M> && std::is_empty_v<M> &&(
    requires {
      { M::f(detail::score_before{}) } -> Expr;
    } ||
    requires {
      { M::f(detail::score_before{}, size<2>{}) } -> Expr;
    });

namespace archetype {
/// The member that a score map needs.
struct map_of_scores : score_map {
  template <Expr S>
  static constexpr auto f(S s) {
    return s + s;
  }
};
}  // namespace archetype
static_assert(ScoreMap<archetype::map_of_scores> && !ScoreMap<score_map>,
              "headmix: archetype::map_of_scores is no ScoreMap, or score_map itself is one");

/// Maps for `attention` in their order, and the extent of heads for their operands.
template <Extent Heads, class... M>
struct score_maps {};

namespace detail {

template <class E>
concept ScoreSymbol = std::is_base_of_v<score_symbol, E>;
template <class E>
inline constexpr bool is_number = false;
template <long long Num, long long Den>
inline constexpr bool is_number<number<Num, Den>> = true;

template <class E>
struct mentions_symbol : std::bool_constant<ScoreSymbol<E>> {};
template <class Op, class... A>
struct mentions_symbol<node<Op, A...>> : std::bool_constant<(mentions_symbol<A>::value || ...)> {};
template <class E>
struct only_numbers : std::bool_constant<is_number<E>> {};
template <class Op, class... A>
struct only_numbers<node<Op, A...>>
    : std::bool_constant<sizeof...(A) != 0 && Op::form_of == form::pointwise && (only_numbers<A>::value && ...)> {};
/// True if a kernel reads E from memory.
template <class E>
inline constexpr bool is_score_operand = !mentions_symbol<E>::value && !only_numbers<E>::value;

/// True if a map reads the number of the head, or an operand with one number per head.
template <class E>
struct depends_on_head : std::bool_constant<std::is_same_v<E, head_index>> {};
template <class E>
requires is_score_operand<E>
struct depends_on_head<E> : std::bool_constant<cols<E>::value != 1> {
};
template <class Op, class... A>
requires(!is_score_operand<node<Op, A...>>) struct depends_on_head<node<Op, A...>>
    : std::bool_constant<(depends_on_head<A>::value || ...)> {
};

// ---- derivatives ----

/// Terms whose sum is D times the derivative of Y by X.
template <class X, class Y, class D>
struct derivative_terms {
  using type = type_list<>;
};
template <class X, class D>
struct derivative_terms<X, X, D> {
  using type = type_list<D>;
};
template <class X, class Y>
struct derivative_terms<X, Y, none> {
  using type = type_list<>;
};
template <class X>
struct derivative_terms<X, X, none> {
  using type = type_list<>;
};
template <class X, class Slots, class... A>
struct derivative_of_slots;
template <class X, class... D, class... A>
struct derivative_of_slots<X, gradients<D...>, A...> {
  using type = concat<typename derivative_terms<X, A, D>::type...>;
};
template <class X, class Op, class... A, class D>
requires(!std::is_same_v<X, node<Op, A...>> && !std::is_same_v<D, none> && mentions_symbol<node<Op, A...>>::value &&
         Op::differentiable) struct derivative_terms<X, node<Op, A...>, D>
    : derivative_of_slots<X, decltype(Op::vjp(D{}, A{}..., node<Op, A...>{})), A...> {
};

template <class Terms>
struct sum_of {
  using type = number<0>;
};
template <class... T>
requires(sizeof...(T) > 0) struct sum_of<type_list<T...>> {
  using type = decltype((T{} + ...));
};
/// The derivative of Y by X.
template <class X, class Y>
using derivative = typename sum_of<typename derivative_terms<X, Y, number<1>>::type>::type;

// ---- lowering ----

/// The list Operands, followed by the operands of E.
template <class Operands, class E>
struct operands_with {
  using type = Operands;
};
template <class Operands, class E>
requires is_score_operand<E>
struct operands_with<Operands, E> {
  static_assert(rows<E>::value == 1 && count<E>::value == 1 && E::kind_of != kind::integer,
                "headmix: an operand of a score map is one number, [1, 1], or one for each head, [1, heads]");
  using type = push_unique<Operands, E>;
};
template <class Operands, class Op, class A>
requires(mentions_symbol<node<Op, A>>::value) struct operands_with<Operands, node<Op, A>> : operands_with<Operands, A> {
};
template <class Operands, class Op, class A, class B>
requires(mentions_symbol<node<Op, A, B>>::value) struct operands_with<Operands, node<Op, A, B>>
    : operands_with<typename operands_with<Operands, A>::type, B> {
};

/// The list Steps, followed by the steps of E: `type`; the position of E in it: `at`.
template <class Operands, class Steps, class E>
struct score_steps;
template <class Steps, class Step>
struct with_step {
  using type = push_unique<Steps, Step>;
  static constexpr int at = position_in<type, Step>::value;
};
template <class Operands, class Steps, ScoreSymbol E>
struct score_steps<Operands, Steps, E> : with_step<Steps, typename E::step> {};
template <class Operands, class Steps, long long Num, long long Den>
struct score_steps<Operands, Steps, number<Num, Den>> : with_step<Steps, score_step::number<Num, Den>> {};
template <class Operands, class Steps, class E>
requires contains<Operands, E>
struct score_steps<Operands, Steps, E> : with_step<Steps, score_step::operand<position_in<Operands, E>::value>> {
};
template <class Operands, class Steps, class Op, class A>
requires(!contains<Operands, node<Op, A>>) struct score_steps<Operands, Steps, node<Op, A>> {
  static_assert(Op::form_of == form::pointwise, "headmix: a score map is made of pointwise operations");
  using of_a = score_steps<Operands, Steps, A>;
  using added = with_step<typename of_a::type, score_step::apply<Op, of_a::at>>;
  using type = typename added::type;
  static constexpr int at = added::at;
};
template <class Operands, class Steps, class Op, class A, class B>
requires(!contains<Operands, node<Op, A, B>>) struct score_steps<Operands, Steps, node<Op, A, B>> {
  static_assert(Op::form_of == form::pointwise, "headmix: a score map is made of pointwise operations");
  using of_a = score_steps<Operands, Steps, A>;
  using of_b = score_steps<Operands, typename of_a::type, B>;
  using added = with_step<typename of_b::type, score_step::apply<Op, of_a::at, of_b::at>>;
  using type = typename added::type;
  static constexpr int at = added::at;
};

/// The map of Steps and the derivatives of Y by some operands; operands without a gradient have zeros.
template <class Operands, class Steps, class Y, int Value, int ByScore, class By, int... At>
struct map_with_derivatives;
template <class... A, class Steps, class Y, int Value, int ByScore, int... At>
struct map_with_derivatives<type_list<A...>, Steps, Y, Value, ByScore, type_list<>, At...> {
  using type = lowered_score_map<Steps, kind_list<A::kind_of...>, Value, ByScore, At...>;
};
template <class Y, class X>
using derivative_if_wanted = std::conditional_t<X::grad, derivative<X, Y>, number<0>>;
template <class Operands, class Steps, class Y, int Value, int ByScore, class H, class... T, int... At>
struct map_with_derivatives<Operands, Steps, Y, Value, ByScore, type_list<H, T...>, At...>
    : map_with_derivatives<Operands, typename score_steps<Operands, Steps, derivative_if_wanted<Y, H>>::type, Y, Value,
                           ByScore, type_list<T...>, At...,
                           score_steps<Operands, Steps, derivative_if_wanted<Y, H>>::at> {};

/// The score Y as a kernel receives it: `map`, and the `operands` that it reads.
template <class Y>
struct lowered_scores {
  using operands = typename operands_with<type_list<>, Y>::type;
  using value = score_steps<operands, type_list<>, Y>;
  using by_score = score_steps<operands, typename value::type, derivative<score_before, Y>>;
  using map =
      typename map_with_derivatives<operands, typename by_score::type, Y, value::at, by_score::at, operands>::type;
};

template <class Heads, class S>
constexpr auto map_score(S s) {
  return s;
}
/// The score s after the maps.
template <class Heads, class M, class... More, class S>
constexpr auto map_score(S s) {
  if constexpr (requires { M::f(s); }) {
    return map_score<Heads, More...>(M::f(s));
  } else {
    return map_score<Heads, More...>(M::f(s, Heads{}));
  }
}

}  // namespace detail

}  // namespace headmix
