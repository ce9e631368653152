#pragma once
// SPDX-License-Identifier: MIT
// The steps of the optional kernel each_row. Every row executes the steps in order; each step is the kernel of
// contract/backend_policy.hpp with its name, applied to that row, with the operands documented there, one matrix each.

#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::row_step {

/// map(y, tree, accumulate)
template <class T, class Tree>
struct map {
  view<T> y;
  Tree tree;
  bool accumulate;
};
/// row_sum(y, a, accumulate)
template <class T, class Tree>
struct sum {
  view<T> y;
  lazy<Tree> a;
  bool accumulate;
};
/// softmax(y, a)
template <class T, class A>
struct softmax {
  view<T> y;
  view<A const> a;
};
/// gather_cols(y, a, index)
template <class T>
struct gather {
  view<T> y;
  view<T const> a;
  view<Int const> index;
};
/// scatter_cols(y, a, index); one_hot(y, index) where a has no data
template <class T>
struct scatter {
  view<T> y;
  view<T const> a;
  view<Int const> index;
};
/// renumber(y, a, add, add_per_row, divide)
struct renumber {
  view<Int> y;
  view<Int const> a;
  Index add, add_per_row;
  Index divide = 1;
};
/// y_i = the columns of a_i, then those of b_i
template <class T, class A, class B>
struct concat {
  view<T> y;
  view<A const> a;
  view<B const> b;
};

}  // namespace headmix::row_step
