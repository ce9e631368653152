#pragma once
// SPDX-License-Identifier: MIT
// Rotary position embedding (Su et al. 2021) on half-split pairs: at position t the pair (i, i + d_h / 2) of each head
// turns by t theta^(-2 i / d_h).

#include "headmix/contract/position.hpp"
#include "headmix/core/error.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {
namespace ops {

/// Positions of Rows; Keys is the extent of the rows that queries attend to, or void.
template <class Heads, class Rows, bool Inverse, class Keys>
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
  using checks = type_list<multiple_of<cols_of<A>, extent_value<times<size<2>, Heads>>>,
                           equal<rows_of<Theta>, extent_value<size<1>>>, equal<cols_of<Theta>, extent_value<size<1>>>>;
  static void eval(auto const& run, auto y, auto a, auto theta) {
    run.backend.rotary(y, a, theta, positions(run), run.template extent<Heads>(), Inverse);
  }
  static constexpr auto vjp(auto dy, auto, auto theta, auto) {
    return grads(make<rotary<Heads, Rows, !Inverse, Keys>>(dy, theta), none{});
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
template <Extent Heads, class Keys = void, Expr A, Expr Theta>
constexpr auto rotary(A a, Theta theta) {
  static_assert(!Theta::grad, "headmix: rotary has no gradient by theta; give a number or a constant");
  return make<ops::rotary<Heads, rows<A>, false, Keys>>(a, upcast(theta));
}

}  // namespace headmix
