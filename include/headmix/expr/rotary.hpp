#pragma once
// SPDX-License-Identifier: MIT
// Rotary position embedding (Su et al. 2021) on half-split pairs: at position t the pair (i, i + d_h / 2) of each head
// turns by t theta^(-2 i / d_h).

#include "headmix/expr/view_ops.hpp"

namespace headmix {
namespace ops {

template <class Heads, class Rows, bool Inverse>
struct rotary : operation {
  template <class A, class Theta>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class A, class Theta>
  static constexpr kind kind_of = A::kind_of;
  template <class A, class Theta>
  using checks = type_list<multiple_of<cols_of<A>, the<times<size<2>, Heads>>>, equal<rows_of<Theta>, the<size<1>>>,
                           equal<cols_of<Theta>, the<size<1>>>>;
  static void eval(auto const& run, auto y, auto a, auto theta) {
    run.backend.rotary(y, a, theta, run.template segments_of<Rows>(), run.template extent<Heads>(), Inverse);
  }
  static constexpr auto vjp(auto dy, auto, auto theta, auto) {
    return grads(make<rotary<Heads, Rows, !Inverse>>(dy, theta), none{});
  }
};

}  // namespace ops

/// The heads of each row of a [n T, Heads d_h], turned by their token's position in its sequence; `theta` is [1, 1].
/// Angles are formed in double: in float, y is off by at most 1e-6 |a| at 2^20 positions.
template <Extent Heads, Expr A, Expr Theta>
constexpr auto rotary(A a, Theta theta) {
  static_assert(!Theta::grad, "headmix: rotary has no gradient by theta; give a number or a constant");
  return make<ops::rotary<Heads, rows<A>, false>>(a, upcast(theta));
}

}  // namespace headmix
