#pragma once
// SPDX-License-Identifier: MIT
// The operands of a fused router.

#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix {

/// z = x w, p = softmax(s), s being adjacent columns of z, index = the top-k columns of p, and statistics of these;
/// z and statistics with null data are not written. x [R, D], w [D, C], index [R, K].
template <class T>
struct route_problem {
  using wide = accumulator_t<T>;
  view<wide> z;  ///< [R, C]
  view<wide> p;  ///< [R, E]
  view<Int> index;
  view<wide> log_sum;       ///< log_sum_exp(s), [R, 1]
  view<wide> squares;       ///< col_sum(square(log_sum)), [1, 1]
  view<wide> p_sum;         ///< col_sum(p), [1, E]
  view<wide> chosen;        ///< one_hot(index), [R, E]
  view<wide> chosen_sum;    ///< col_sum(one_hot(index)), [1, E]
  view<wide> first;         ///< one_hot(first_choice(index)), [R, E]
  view<wide> first_sum;     ///< col_sum(one_hot(first_choice(index))), [1, E]
  view<Int> order, begins;  ///< sort_by_expert(index), [1, R K] and [1, E + 1]
  view<T const> x, w;
  Index before = 0;   ///< columns of z before those of s
  view<wide> s = {};  ///< [R, E]
};

}  // namespace headmix
