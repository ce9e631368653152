#pragma once
// SPDX-License-Identifier: MIT
// Rotary position embedding (Su et al. 2021): at position t the pair (i, i + d_h / 2) of each head turns by
// t theta^(-2 i / d_h). Forms of it: the first columns of a head alone, pairs of neighbours, Llama 3's frequencies.

#include "headmix/contract/position.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {

/// A form of rotary embedding: a change of the rotation, `apply(rotation&)`.
struct rotary_form {};
/// The first Dims columns of each head turn, theta^(-2 i / Dims); the others stay (GPT-NeoX, Phi).
template <Index Dims>
struct partial_rotary : rotary_form {
  static_assert(Dims > 0 && Dims % 2 == 0, "headmix: partial_rotary<n> turns pairs of columns: n is even and above 0");
  static constexpr Index dims = Dims;
  /// The change of a rotation.
  static constexpr void apply(rotation& r) { r.dims = Dims; }
};
/// Pairs are neighbours, the columns (2 i, 2 i + 1) (GPT-J, and Llama's own code).
struct interleaved_pairs : rotary_form {
  /// The change of a rotation.
  static constexpr void apply(rotation& r) { r.interleaved = true; }
};
/// Llama 3.1's frequencies: those that turn fewer than Low times in the Trained positions of the first training are
/// divided by Factor, those that turn more than High times are kept, and the ones in between are linear between both.
template <Index Factor = 8, Index Trained = 8192, Index Low = 1, Index High = 4>
struct llama3_frequencies : rotary_form {
  static_assert(Factor > 0 && Trained > 0 && Low > 0 && High > Low,
                "headmix: llama3_frequencies<factor, trained, low, high>: numbers above 0, and high above low");
  /// The change of a rotation.
  static constexpr void apply(rotation& r) { r.trained = Trained, r.factor = Factor, r.low = Low, r.high = High; }
};

namespace detail {
template <class... Form>
constexpr rotation rotation_of(bool inverse) {
  static_assert((std::is_base_of_v<rotary_form, Form> && ...), "headmix: rotary embedding takes forms of it alone");
  static_assert(unique<type_list<Form...>>::size == sizeof...(Form),
                "headmix: a form of rotary embedding is given twice");
  rotation r;
  r.inverse = inverse;
  (Form::apply(r), ...);
  return r;
}
template <class Form>
inline constexpr bool is_partial = requires {
  Form::dims;
};
/// The check that a head has the columns of a form.
template <class A, class Heads, class Form>
struct checks_of_form {
  using type = type_list<>;
};
template <class A, class Heads, Index Dims>
struct checks_of_form<A, Heads, partial_rotary<Dims>> {
  using type = type_list<at_most<extent_value<size<Dims>>, extent_value<over<cols<A>, Heads>>>>;
};
}  // namespace detail

namespace ops {

/// Positions of Rows; Keys is the extent of the rows that queries attend to, or void.
template <class Heads, class Rows, bool Inverse, class Keys, class... Form>
struct rotary : operation {
  static constexpr bool validates = !std::is_void_v<Keys>;
  template <class...>
  static void validate(auto const& run) {
    Index const queries = run.template segments_of<Rows>().count, keys = run.template segments_of<Keys>().count;
    if (queries != keys) fail("rotary: there are ", queries, " sequences of queries and ", keys, " of keys");
  }
  template <class A, class Theta>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class A, class Theta>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class Theta>
  using checks = concat<
      std::conditional_t<(detail::is_partial<Form> || ...), type_list<multiple_of<cols_of<A>, extent_value<Heads>>>,
                         type_list<multiple_of<cols_of<A>, extent_value<times<size<2>, Heads>>>>>,
      type_list<equal<rows_of<Theta>, extent_value<size<1>>>, equal<cols_of<Theta>, extent_value<size<1>>>>,
      typename detail::checks_of_form<A, Heads, Form>::type...>;
  static void eval(auto const& run, auto y, auto a, auto theta) {
    run.backend.rotary(y, a, theta, positions(run), run.template extent<Heads>(),
                       detail::rotation_of<Form...>(Inverse));
  }
  static constexpr auto vjp(auto dy, auto, auto theta, auto) {
    return grads(make<rotary<Heads, Rows, !Inverse, Keys, Form...>>(dy, theta), none{});
  }

 private:
  static row_positions positions(auto const& run) {
    if constexpr (std::is_void_v<Keys>) {
      return run.template segments_of<Rows>();
    } else {
      return {run.template segments_of<Rows>(), run.template segments_of<Keys>()};
    }
  }
};

}  // namespace ops

/// Rotates the heads of each row of a [n T, Heads d_h] by their token's position (contract/position.hpp); `theta` is
/// [1, 1]. Angles are computed in double: in float, y is off by at most 1e-6 |a| at 2^20 positions.
/// @tparam Keys  the extent of keys, if a holds queries of other rows: `context_tokens`; void for none
/// @tparam Form  forms: partial_rotary, interleaved_pairs, llama3_frequencies
template <Extent Heads, class Keys = void, class... Form, Expr A, Expr Theta>
constexpr auto rotary(A a, Theta theta) {
  static_assert(!Theta::grad, "headmix: rotary has no gradient by theta; give a number or a constant");
  return make<ops::rotary<Heads, rows<A>, false, Keys, Form...>>(a, upcast(theta));
}

}  // namespace headmix
