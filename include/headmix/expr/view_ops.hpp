#pragma once
// SPDX-License-Identifier: MIT
// Views: the same elements in another order, without a copy. Gradients are the inverse views.

#include "headmix/core/view.hpp"
#include "headmix/expr/pointwise.hpp"

namespace headmix {

namespace ops {
struct transpose;
template <class Parts>
struct split_rows;
template <class Parts>
struct merge_rows;
template <class Parts>
struct group_sum;
template <kind K>
struct matmul;
}  // namespace ops

/// Exchanges rows and columns (of every matrix of a stack). Never stored: products take transposed operands.
template <Expr A>
constexpr auto t(A a) {
  return make<ops::transpose>(a);
}
/// The transpose of a transpose.
template <Expr A>
constexpr auto t(detail::node<ops::transpose, A>) {
  return A{};
}
/// (A B)^T = B^T A^T.
template <kind K, Expr A, Expr B>
constexpr auto t(detail::node<ops::matmul<K>, A, B>) {
  return make<ops::matmul<K>>(t(B{}), t(A{}));
}

/// [R, Parts * C] as [R * Parts, C]: the parts of a row become rows (heads of a token, sub-tokens, gates of slots).
template <Extent Parts, Expr A>
constexpr auto split_rows(A a) {
  if constexpr (Parts::value == 1) {
    return a;
  } else {
    return make<ops::split_rows<Parts>>(a);
  }
}
/// [R * Parts, C] as [R, Parts * C]: the inverse of split_rows.
template <Extent Parts, Expr A>
constexpr auto merge_rows(A a) {
  if constexpr (Parts::value == 1) {
    return a;
  } else {
    return make<ops::merge_rows<Parts>>(a);
  }
}

namespace ops {

struct transpose : operation {
  static constexpr detail::form form_of = detail::form::view;
  static constexpr bool takes_stacks = true;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
  template <Selection A>
  using domain_of = headmix::domain<A>;
  template <class A>
  using shape_of = shape<cols<A>, rows<A>, count<A>>;
  template <class T>
  static constexpr view<T> apply(auto const&, view<T> a) {
    return a.transposed();
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(t(dy)); }
};

/// Base of views whose operand must have rows without gaps.
struct reshape : operation {
  static constexpr detail::form form_of = detail::form::view;
  template <class A>
  static constexpr kind kind_of = A::kind_of;
};

template <class Parts>
struct split_rows : reshape {
  template <class A>
  using shape_of = shape<times<Parts, rows<A>>, over<cols<A>, Parts>>;
  template <Selection A>
  using domain_of = headmix::domain<A>;
  template <class A>
  using checks = type_list<multiple_of<cols_of<A>, extent_value<Parts>>>;
  template <class T>
  static constexpr view<T> apply(auto const& run, view<T> a) {
    Index const n = run.template extent<Parts>();
    return {a.data, a.rows * n, a.cols / n};
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(headmix::merge_rows<Parts>(dy)); }
};

template <class Parts>
struct merge_rows : reshape {
  template <class A>
  using shape_of = shape<over<rows<A>, Parts>, times<Parts, cols<A>>>;
  template <class A>
  using checks = type_list<multiple_of<rows_of<A>, extent_value<Parts>>>;
  template <class T>
  static constexpr view<T> apply(auto const& run, view<T> a) {
    Index const n = run.template extent<Parts>();
    return {a.data, a.rows / n, a.cols * n};
  }
  static constexpr auto vjp(auto dy, auto, auto) { return grads(headmix::split_rows<Parts>(dy)); }
};

/// Every row Parts times, one after the other. It only renumbers rows, so it fuses as pointwise operations do.
template <class Parts>
struct repeat_rows : operation {
  static constexpr detail::form form_of = detail::form::pointwise;
  using repeats = Parts;
  template <class A>
  using shape_of = shape<times<Parts, rows<A>>, cols<A>>;
  static constexpr auto vjp(auto dy, auto, auto) { return grads(make<group_sum<Parts>>(dy)); }
};

}  // namespace ops

/// [R, C] -> [R * Parts, C], row i Parts times in a row: a value of the token for each of its Parts slots.
template <Extent Parts, Expr A>
constexpr auto repeat_rows(A a) {
  if constexpr (Parts::value == 1) {
    return a;
  } else {
    return make<ops::repeat_rows<Parts>>(a);
  }
}

}  // namespace headmix
