#pragma once
// SPDX-License-Identifier: MIT
// Softmax and log-sum-exp over the columns of each row, shifted by the row's maximum.

#include "headmix/expr/reduce.hpp"

namespace headmix {
namespace ops {

/// y_ij = exp(a_ij) / sum_j exp(a_ij); a row of minus infinities gives zeros.
struct softmax : operation {
  template <class A>
  using shape_of = shape<rows<A>, cols<A>>;
  template <class A>
  using checks = type_list<equal<count_of<A>, extent_value<size<1>>>>;
  static void eval(auto const& run, auto y, auto a) { run.backend.softmax(y, a); }
  static constexpr bool is_row_local = true;
  template <class T, class A>
  static row_step::softmax<T, A> in_row(auto const&, view<T> y, view<A const> a) {
    return {y, a};
  }
  static constexpr auto vjp(auto dy, auto, auto y) { return grads(y * (dy - headmix::row_sum(y * dy))); }
};

/// y_i = log sum_j exp(a_ij)
struct log_sum_exp : operation {
  template <class>
  static constexpr kind kind_of = kind::accumulator;
  template <class A>
  using shape_of = shape<rows<A>, size<1>>;
  template <class A>
  using checks = type_list<equal<count_of<A>, extent_value<size<1>>>>;
  static void eval(auto const& run, auto y, auto a) { run.backend.log_sum_exp(y, a); }
  static constexpr auto vjp(auto dy, auto a, auto) { return grads(dy * make<softmax>(a)); }
};

}  // namespace ops

/// [R, C] -> [R, C], rows sum to 1.
template <Expr A>
constexpr applied<ops::softmax, A> softmax(A) {
  return {};
}
/// [R, C] -> [R, 1]
template <Expr A>
constexpr applied<ops::log_sum_exp, A> log_sum_exp(A) {
  return {};
}

}  // namespace headmix
