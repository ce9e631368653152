#pragma once
// SPDX-License-Identifier: MIT
// Several row functions in one launch: a team of lanes executes the steps on its row in order. A step may read
// the row's results of earlier steps.

#include <type_traits>

#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/routing/select.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/kernel/rows/reduce.hpp"
#include "headmix/backend/cuda/kernel/rows/softmax.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/row_steps.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// The columns of a, then the columns of b.
template <class A, class B>
struct tree_concat {
  view<A const> a;
  view<B const> b;

  struct joined {
    A const* a;
    B const* b;
    Index a_stride, b_stride, a_cols;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      return j < a_cols ? static_cast<P>(a[j * a_stride]) : static_cast<P>(b[(j - a_cols) * b_stride]);
    }
  };
  HEADMIX_HD joined row(Index i) const { return {&a(i, 0), &b(i, 0), a.col_stride, b.col_stride, a.cols}; }
};

// The functions of a team for row i; there is no row if `valid` is false.

/// A step; its elements are computed as float_vectors if `vectors` is true.
template <class S>
struct vector_step : S {
  bool vectors;
};

template <class W, class T, class Tree, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::map<T, Tree> const& s, Index i, bool valid) {
  if (!valid) return;
  using number = std::conditional_t<std::is_same_v<T, Int>, Int, W>;
  auto const row = s.tree.row(i);
  HEADMIX_NO_UNROLL
  for (Index j = members.member(device); j < s.y.cols; j += members.size()) {
    store_element(device, &s.y(i, j), row.template at<number>(j), s.accumulate);
  }
}
template <class W, class T, class Tree, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, vector_step<row_step::map<T, Tree>> const& s, Index i,
                            bool valid) {
  constexpr int width = float_vector::width;  // rows are short: an int counts their columns
  if (!s.vectors) return execute<W>(device, members, static_cast<row_step::map<T, Tree> const&>(s), i, valid);
  if (!valid) return;
  auto const row = s.tree.lazy_row(i);
  HEADMIX_NO_UNROLL
  for (int j = members.member(device) * width, cols = static_cast<int>(s.y.cols); j < cols;
       j += members.size() * width) {
    store_vector(device, s.y.row(i) + j, row, j, s.accumulate);
  }
}
template <class W, class T, class Tree, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, vector_step<row_step::sum<T, Tree>> const& s, Index i,
                            bool valid) {
  W const sum = sum_of_row<W>(device, members, s.a, i, valid, s.vectors);
  if (valid && members.member(device) == 0) store_element(device, &s.y(i, 0), sum, s.accumulate);
}
template <class W, class T, class A, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::softmax<T, A> const& s, Index i, bool valid) {
  softmax_of_row<W>(device, members, s.y, s.a, i, valid);
}
template <class W, class T, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::gather<T> const& s, Index i, bool valid) {
  execute<W>(device, members, row_step::map<T, tree_gather_cols<T>>{s.y, {s.a, s.index}, false}, i, valid);
}
template <class W, class T, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::scatter<T> const& s, Index i, bool valid) {
  execute<W>(device, members, row_step::map<T, tree_scatter_cols<T>>{s.y, {s.a, s.index}, false}, i, valid);
}
template <class W, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::renumber const& s, Index i, bool valid) {
  execute<W>(device, members, row_step::map<Int, tree_renumber>{s.y, {s.a, s.add, s.add_per_row, s.divide}, false}, i,
             valid);
}
template <class W, class T, class A, class B, class Device>
HEADMIX_DEVICE void execute(Device& device, team members, row_step::concat<T, A, B> const& s, Index i, bool valid) {
  execute<W>(device, members, row_step::map<T, tree_concat<A, B>>{s.y, {s.a, s.b}, false}, i, valid);
}

/// The steps as a kernel operand: a std::tuple is not trivially copyable.
template <class... S>
struct step_list {};
template <class First, class... Rest>
struct step_list<First, Rest...> {
  First first;
  step_list<Rest...> rest;
};

template <class W, class... S>
struct each_row_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = 0;

  step_list<S...> steps;
  Index rows;
  team members;  ///< lanes of a warp

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    execute_all(device, steps, i, i < rows);
  }

 private:
  template <class Device>
  HEADMIX_DEVICE void execute_all(Device&, step_list<> const&, Index, bool) const {}
  template <class Device, class First, class... Rest>
  HEADMIX_DEVICE void execute_all(Device& device, step_list<First, Rest...> const& s, Index i, bool valid) const {
    execute<W>(device, members, s.first, i, valid);
    if constexpr (sizeof...(Rest) > 0) device.sync_warp();
    execute_all(device, s.rest, i, valid);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
