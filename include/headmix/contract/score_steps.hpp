#pragma once
// SPDX-License-Identifier: MIT
// Score maps as attention kernels receive them (expr/score.hpp): a list of steps that computes the new score and its
// derivatives from the score, the positions of query and key, and the operands of the head. Each step is computed once;
// the list has no leaf names. All arithmetic is in the accumulator type, or in vectors of it.

#include "headmix/core/scalar.hpp"
#include "headmix/core/type_list.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix {

namespace score_step {
/// The score before the map.
struct score {};
struct query_position {};
struct key_position {};
struct head {};
template <long long Num, long long Den>
struct number {};
/// Operand number Which of the map, for the head.
template <int Which>
struct operand {};
/// A pointwise operation on the values of earlier steps.
template <class Op, int... From>
struct apply {};
}  // namespace score_step

/// The numbers that score maps read of a query row: position, head, and the operands of the head.
template <class W, int Operands>
struct score_row {
  W position, head;
  /// The operands of the head.
  W operand[Operands == 0 ? 1 : Operands];
};

/// A new score and its derivatives with respect to the old score and to the operands.
template <class P, int Operands>
struct score_derivatives {
  P value, by_score;
  /// Derivatives with respect to the operands.
  P by_operand[Operands == 0 ? 1 : Operands];
};

/// A number for every head, or one for all of them (a stride of 0).
template <class T>
struct head_numbers {
  T const* data = nullptr;
  Index stride = 0;

  head_numbers() = default;
  /// From [1, heads], or [1, 1] for all heads.
  explicit head_numbers(view<T const> const& v) : data(v.data), stride(v.cols == 1 ? 0 : v.col_stride) {}
};

/// The operands of score maps, of the types T.
template <class... T>
struct score_operands {
  /// The end of the recursion.
  template <class W>
  HEADMIX_HD void read(W*, Index) const {}
};
template <class H, class... T>
struct score_operands<H, T...> {
  head_numbers<H> first;
  /// The remaining operands.
  score_operands<T...> rest;

  score_operands() = default;
  /// From the views of all operands.
  template <class... V>
  explicit score_operands(view<H const> const& v, V const&... more) : first(v), rest(more...) {}
  /// The operands of a head.
  template <class W>
  HEADMIX_HD void read(W* to, Index head) const {
    *to = static_cast<W>(first.data[head * first.stride]);
    rest.read(to + 1, head);
  }
};

/// The identity: scores are unchanged.
struct no_score_map {
  static constexpr bool identity = true, divides = false;
  static constexpr int operands = 0;
  template <class T>
  using operands_of = score_operands<>;
};

/// Storage kinds of the operands.
template <kind... Kind>
struct kind_list {};

namespace detail {

template <class P, class Row>
struct score_inputs {
  Row const& row;
  P score, key_position;
};
/// The value of a step, from those of all steps before it.
template <class P, class Step>
struct score_step_value;
template <class P>
struct score_step_value<P, score_step::score> {
  template <class In>
  HEADMIX_HD static P of(In const& in, P const*) {
    return in.score;
  }
};
template <class P>
struct score_step_value<P, score_step::query_position> {
  template <class In>
  HEADMIX_HD static P of(In const& in, P const*) {
    return P(in.row.position);
  }
};
template <class P>
struct score_step_value<P, score_step::key_position> {
  template <class In>
  HEADMIX_HD static P of(In const& in, P const*) {
    return in.key_position;
  }
};
template <class P>
struct score_step_value<P, score_step::head> {
  template <class In>
  HEADMIX_HD static P of(In const& in, P const*) {
    return P(in.row.head);
  }
};
template <class P, long long Num, long long Den>
struct score_step_value<P, score_step::number<Num, Den>> {
  template <class In>
  HEADMIX_HD static P of(In const&, P const*) {
    return P(static_cast<double>(Num) / static_cast<double>(Den));
  }
};
template <class P, int Which>
struct score_step_value<P, score_step::operand<Which>> {
  template <class In>
  HEADMIX_HD static P of(In const& in, P const*) {
    return P(in.row.operand[Which]);
  }
};
template <class P, class Op, int... From>
struct score_step_value<P, score_step::apply<Op, From...>> {
  template <class In>
  HEADMIX_HD static P of(In const&, P const* values) {
    return Op::template f<P>(values[From]...);
  }
};

/// Properties of a step: whether it works on vectors, depends on the score, and divides.
template <class Step>
struct score_step_facts {
  static constexpr bool vectorizable = true, reads_score = std::is_same_v<Step, score_step::score>, divides = false;
};
template <class Op, int... From>
struct score_step_facts<score_step::apply<Op, From...>> {
  static constexpr bool vectorizable = Op::vectorizable, divides = Op::divides;
};

template <class Step, class Steps>
struct score_dependence : std::bool_constant<score_step_facts<Step>::reads_score> {};
template <class Op, int... From, class Steps>
struct score_dependence<score_step::apply<Op, From...>, Steps>
    : std::bool_constant<(score_dependence<nth<From, Steps>, Steps>::value || ...)> {};

}  // namespace detail

/// Score maps in sequence.
/// @tparam Steps            the steps, operands first
/// @tparam Kinds            storage kinds of the operands
/// @tparam Value, ByScore   step numbers of the new score and of its derivative by the old one
/// @tparam ByOperand        step numbers of the derivatives by the operands
template <class Steps, class Kinds, int Value, int ByScore, int... ByOperand>
struct lowered_score_map;
template <class... Step, kind... Kind, int Value, int ByScore, int... ByOperand>
struct lowered_score_map<type_list<Step...>, kind_list<Kind...>, Value, ByScore, ByOperand...> {
  static constexpr bool identity = false;
  static constexpr int operands = sizeof...(ByOperand);
  /// True if all steps also work on vectors of numbers.
  static constexpr bool vectorizable = (detail::score_step_facts<Step>::vectorizable && ...);
  /// True if a step divides.
  static constexpr bool divides = (detail::score_step_facts<Step>::divides || ...);
  using by_score = nth<ByScore, type_list<Step...>>;
  /// True if the derivative by the score is 1, and if it depends on the score.
  static constexpr bool shifts = std::is_same_v<by_score, score_step::number<1, 1>>,
                        bends = detail::score_dependence<by_score, type_list<Step...>>::value;
  template <class T>
  using operands_of = score_operands<storage_t<Kind, T>...>;
  template <class W>
  using row = score_row<W, operands>;

  /// The new score of a key.
  template <class P, class W>
  HEADMIX_HD static P value(row<W> const& of, P score, P key_position) {
    P step[Value + 1];
    run(std::make_integer_sequence<int, Value + 1>{}, detail::score_inputs<P, row<W>>{of, score, key_position}, step);
    return step[Value];
  }
  /// The new score of a key with its derivatives by the old score and by the operands.
  template <class P, class W>
  HEADMIX_HD static score_derivatives<P, 0> with_slope(row<W> const& of, P score, P key_position) {
    constexpr int count = (Value > ByScore ? Value : ByScore) + 1;
    P step[count];
    run(std::make_integer_sequence<int, count>{}, detail::score_inputs<P, row<W>>{of, score, key_position}, step);
    return {step[Value], step[ByScore], {score}};
  }
  /// The new score, and its derivatives by the old one and by the operands.
  template <class P, class W>
  HEADMIX_HD static score_derivatives<P, operands> derivatives(row<W> const& of, P score, P key_position) {
    constexpr int count = static_cast<int>(sizeof...(Step));
    P step[count];
    run(std::make_integer_sequence<int, count>{}, detail::score_inputs<P, row<W>>{of, score, key_position}, step);
    if constexpr (operands == 0) {
      return {step[Value], step[ByScore], {score}};
    } else {
      return {step[Value], step[ByScore], {step[ByOperand]...}};
    }
  }

 private:
  template <int... Which, class P, class Row>
  HEADMIX_HD static void run(std::integer_sequence<int, Which...>, detail::score_inputs<P, Row> const& in, P* step) {
    ((step[Which] = detail::score_step_value<P, nth<Which, type_list<Step...>>>::of(in, step)), ...);
  }
};

}  // namespace headmix

HEADMIX_END_QUIET_BOUNDS
