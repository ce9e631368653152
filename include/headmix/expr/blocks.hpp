#pragma once
// SPDX-License-Identifier: MIT
// A view of a matrix as a stack of its blocks: the heads side by side in W_q, or below each other in W_o, become one
// matrix per head. Weights of a checkpoint are thus weights of experts, without a copy.

#include "headmix/expr/expert.hpp"

namespace headmix {
namespace ops {

template <class Blocks>
struct join_blocks;

/// The gradient of a matrix from the gradient of its blocks; sums over experts write it in place.
template <class Blocks, Expr A>
constexpr auto joined(A a) {
  return make<join_blocks<Blocks>>(a);
}
/// The gradient of a matrix whose blocks are weights of experts; it is written in place.
template <class Blocks, class XSlots, class GSlots, Expr X, Expr G, Expr W, Expr Perm, Expr Offsets>
requires std::is_same_v<typename W::op, Blocks>
constexpr auto joined(detail::node<expert_outer<XSlots, GSlots>, X, G, W, Perm, Offsets>) {
  return make<expert_outer_blocks<Blocks, XSlots, GSlots>>(X{}, G{}, W{}, Perm{}, Offsets{});
}

template <class Parts>
struct column_blocks : operation {
  static constexpr detail::form form_of = detail::form::view;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using shape_of = shape<rows<A>, over<cols<A>, Parts>, Parts>;
  template <class A>
  using whole = shape<rows<A>, times<Parts, cols<A>>>;
  template <class A>
  using checks = type_list<multiple_of<cols_of<A>, extent_value<Parts>>>;
  template <class T>
  static constexpr view<T> apply(auto const& run, view<T> a) {
    Index const n = run.template extent<Parts>();
    a.count = n;
    a.cols /= n;
    a.stack_stride = a.cols * a.col_stride;
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(joined<column_blocks>(dy)); }
};

template <class Parts>
struct row_blocks : operation {
  static constexpr detail::form form_of = detail::form::view;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <class A>
  using shape_of = shape<over<rows<A>, Parts>, cols<A>, Parts>;
  template <class A>
  using whole = shape<times<Parts, rows<A>>, cols<A>>;
  template <class A>
  using checks = type_list<multiple_of<rows_of<A>, extent_value<Parts>>>;
  template <class T>
  static constexpr view<T> apply(auto const& run, view<T> a) {
    Index const n = run.template extent<Parts>();
    a.count = n;
    a.rows /= n;
    a.stack_stride = a.rows * a.row_stride;
    return a;
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(joined<row_blocks>(dy)); }
};

/// The matrix whose blocks are this stack.
template <class Blocks>
struct join_blocks : operation {
  static constexpr bool takes_stacks = true;
  static constexpr bool accumulates = true;
  static constexpr bool differentiable = false;
  template <class A>
  using shape_of = typename Blocks::template whole<A>;
  static void eval(auto const& run, auto y, bool accumulate, auto a) {
    auto const blocks = Blocks::apply(run, y);
    for (Index e = 0; e < blocks.count; ++e) run.copy(blocks[e], a[e], accumulate);
  }
};

}  // namespace ops

/// [R, Parts * C] as a stack of Parts matrices [R, C].
template <Extent Parts, Expr A>
constexpr auto column_blocks(A a) {
  return make<ops::column_blocks<Parts>>(a);
}
/// [Parts * R, C] as a stack of Parts matrices [R, C].
template <Extent Parts, Expr A>
constexpr auto row_blocks(A a) {
  return make<ops::row_blocks<Parts>>(a);
}

}  // namespace headmix
