#pragma once
// SPDX-License-Identifier: MIT
// Sums. The operand is fused: `row_sum(a * b)` is one pass over a and b. The order of additions is fixed by the shape.

#include "headmix/contract/row_steps.hpp"
#include "headmix/expr/view_ops.hpp"

namespace headmix {
namespace ops {

/// The value repeated along the extents where it is 1: the transpose of a sum.
template <class R, class C, class Parts>
struct expand : identity {
  template <class>
  using shape_of = shape<R, C, Parts>;
  template <class>
  using checks = type_list<>;
};

struct reduction : operation {
  static constexpr bool accumulates = true;
  static constexpr bool fuses_operands = true;
};

}  // namespace ops

/// The value, repeated to the shape of `Like`.
template <Expr A, Expr Like>
constexpr applied<ops::expand<rows<Like>, cols<Like>, count<Like>>, A> expand(A, Like) {
  return {};
}

/// [Rows, Cols] of ones.
template <Extent Rows, Extent Cols>
constexpr auto ones_of() {
  return make<ops::expand<Rows, Cols, size<1>>>(number<1>{});
}

namespace ops {

/// Sums of rows; sums of columns are its transpose.
struct row_sum : reduction {
  static constexpr bool takes_stacks = true;
  template <class>
  static constexpr kind kind_of = kind::accumulator;
  template <class A>
  using shape_of = shape<rows<A>, size<1>, count<A>>;
  static void eval(auto const& run, auto y, bool accumulate, auto const& a) { run.backend.row_sum(y, a, accumulate); }
  static constexpr bool is_row_local = true;
  template <class T, class Tree>
  static row_step::sum<T, Tree> in_row(auto const&, view<T> y, bool accumulate, lazy<Tree> const& a) {
    return {y, a, accumulate};
  }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(headmix::expand(dy, a)); }
};

/// Sums of columns.
struct col_sum : reduction {
  static constexpr bool takes_stacks = true;
  template <class>
  static constexpr kind kind_of = kind::accumulator;
  template <class A>
  using shape_of = shape<size<1>, cols<A>>;
  static void eval(auto const& run, auto y, bool accumulate, auto const& a) { run.backend.col_sum(y, a, accumulate); }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(headmix::expand(dy, a)); }
};

/// y_r = sum over j < Parts of a_{r Parts + j}
template <class Parts>
struct group_sum : reduction {
  template <class A>
  using shape_of = shape<over<rows<A>, Parts>, cols<A>>;
  template <class A>
  using checks = type_list<multiple_of<rows_of<A>, extent_value<Parts>>>;
  static void eval(auto const& run, auto y, bool accumulate, auto const& a) {
    run.backend.group_sum(y, a, run.template extent<Parts>(), accumulate);
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(headmix::repeat_rows<Parts>(dy)); }
};

}  // namespace ops

namespace detail {
/// True if the sum of A over its extent X is A itself.
template <class A, class X>
inline constexpr bool is_sum_over = X::value == 1 && A::kind_of == kind::accumulator;
}  // namespace detail

/// [R, C] -> [R, 1]
template <Expr A>
constexpr auto row_sum(A a) {
  if constexpr (detail::is_sum_over<A, cols<A>>) {
    return a;
  } else {
    return make<ops::row_sum>(a);
  }
}
/// [R, C] -> [1, C]
template <Expr A>
constexpr auto col_sum(A a) {
  if constexpr (detail::is_sum_over<A, rows<A>> && count<A>::value == 1) {
    return a;
  } else {
    return make<ops::col_sum>(a);
  }
}
/// [R, C] -> [1, 1]
template <Expr A>
constexpr auto sum(A a) {
  return row_sum(col_sum(a));
}
/// [R * Parts, C] -> [R, C]: the sum over Parts consecutive rows (the slots of a token).
template <Extent Parts, Expr A>
constexpr auto group_sum(A a) {
  if constexpr (Parts::value == 1) {
    return a;
  } else {
    return make<ops::group_sum<Parts>>(a);
  }
}
/// [R, C] -> [R, 1]
template <Expr A>
constexpr auto row_mean(A a) {
  return row_sum(a) / at_least_one<cols<A>>{};
}
/// [R, C] -> [1, C]; the mean of no rows is 0.
template <Expr A>
constexpr auto col_mean(A a) {
  return col_sum(a) / (at_least_one<rows<A>>{} * at_least_one<count<A>>{});
}
/// [R, C] -> [1, 1]; the mean of nothing is 0.
template <Expr A>
constexpr auto mean(A a) {
  return sum(a) / (at_least_one<rows<A>>{} * at_least_one<cols<A>>{} * at_least_one<count<A>>{});
}

}  // namespace headmix
