#pragma once
// SPDX-License-Identifier: MIT
// The matrix product.

#include "headmix/expr/view_ops.hpp"

namespace headmix {
namespace ops {

/// a b, rounded to K at the end of the accumulation.
template <kind K>
struct matmul : operation {
  static constexpr bool accumulates = true;
  static constexpr char const* hint = "; a % b is the product of [M, K] and [K, N]";
  /// So that the products of the gradient have operands of one type, which tensor cores multiply.
  static constexpr bool rounds_gradient = true;
  template <class...>
  static constexpr kind kind_of = K;
  template <class A, class B>
  using shape_of = shape<rows<A>, cols<B>>;
  template <class A, class B>
  using checks = type_list<equal<rows_of<B>, cols_of<A>>, equal<count_of<A>, extent_value<size<1>>>,
                           equal<count_of<B>, extent_value<size<1>>>>;
  static void eval(auto const& run, auto y, bool accumulate, auto a, auto b) { run.backend.gemm(y, a, b, accumulate); }
  static constexpr auto vjp(auto dy, auto a, auto b, auto) {
    return grads(make<matmul<kind::real>>(dy, t(b)), make<matmul<kind::real>>(t(a), dy));
  }
};

}  // namespace ops

/// The matrix product [M, K] % [K, N] -> [M, N].
template <Expr A, Expr B>
constexpr applied<ops::matmul<kind::real>, A, B> operator%(A, B) {
  return {};
}
/// A product with an unrounded accumulator: the logits of a router.
template <Expr A, Expr B>
constexpr auto upcast(detail::node<ops::matmul<kind::real>, A, B>) {
  return make<ops::matmul<kind::accumulator>>(A{}, B{});
}

}  // namespace headmix
