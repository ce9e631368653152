#pragma once
// SPDX-License-Identifier: MIT
// Sums of fused trees along rows and down columns. The order of additions depends on the extents alone, and for sums
// along rows on whether they can be read as vectors. CUB has no sums down columns: its threads would read a column
// instead of neighbouring elements.

#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// A team member's part of the sum of a row of a tree.
template <class W, class Tree, class Row>
[[nodiscard]] HEADMIX_DEVICE W sum_of_member(Row const& row, Index cols, int member, int members, bool vectors) {
  if constexpr (has_vectors<W, Tree>) {
    if (vectors) {
      using P = float_vector;
      return sum_in_blocks<P, W>(Index{member} * P::width, cols, Index{members} * P::width,
                                 [&](Index j) { return row.template loaded<P>(j).template at<P>(j); });
    }
  }
  return sum_in_blocks<W, W, false>(member, cols, members, [&](Index j) { return row.template at<W>(j); });
}
/// The sum of row i of a, equal for all members of a team; `valid` is false for a team without a row.
/// @param vectors  rows_are_vectors
template <class W, class Tree, class Device>
[[nodiscard]] HEADMIX_DEVICE W sum_of_row(Device& device, team members, lazy<Tree> const& a, Index i, bool valid,
                                          bool vectors) {
  W sum = 0;
  if (valid) sum = sum_of_member<W, Tree>(a.tree.row(i), a.cols, members.member(device), members.size(), vectors);
  return team_reduce(device, members, sum, plus{});
}

/// Element i of y (+)= the sum of row i of the tree. One team per row.
template <class W, class T, class Tree>
struct row_sum_kernel {
  static constexpr int threads = team_threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = team_bytes<W>;

  view<T> y;
  lazy<Tree> a;
  bool accumulate;
  team members;
  bool vectors;  ///< rows_are_vectors

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = members.row(device);
    W const sum = sum_of_row<W>(device, members, a, i, i < a.rows, vectors);
    if (i < a.rows && members.member(device) == 0) store_element(device, y.row(i), sum, accumulate);
  }
};

/// Column sums of chunks of rows: element (j, c) of y (+)= the sum of column j over chunk c. A block has up to 32
/// columns of one chunk.
template <class W, class T, class Tree>
struct col_sum_kernel {
  static constexpr int threads = tuning::column_sums.threads;
  static constexpr bool cooperative = true;
  static constexpr int shared_bytes = threads * static_cast<int>(sizeof(W));

  view<T> y;
  lazy<Tree> a;
  bool accumulate;
  team columns;  ///< per block; its other threads have other rows
  Index column_blocks, rows_per_chunk;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const chunk = device.block() / column_blocks;
    Index const j = device.block() % column_blocks * columns.size() + columns.member(device);
    int const first_row = device.thread() >> columns.shift, step = columns.per_block();
    W sum = 0;
    if (j < a.cols) {
      Index const begin = chunk * rows_per_chunk, left = a.rows - begin;
      Index const end = begin + (left < rows_per_chunk ? left : rows_per_chunk);
      sum = sum_in_blocks<W, W>(begin + first_row, end, step, [&](Index i) { return a.tree.row(i).template at<W>(j); });
    }
    auto const partial = device.template shared<W>(0);
    partial[device.thread()] = sum;
    for (int half = threads / 2; half >= columns.size(); half /= 2) {
      device.sync();
      if (device.thread() < half) {
        W const mine = partial[device.thread()], other = partial[device.thread() + half];
        partial[device.thread()] = mine + other;
      }
    }
    // A thread of the first row was the last to access its own element.
    if (first_row == 0 && j < a.cols) {
      W const total = partial[device.thread()];
      store_element(device, &y(j, chunk), total, accumulate);
    }
  }
};

/// The squares of the elements of a.
template <class T>
struct tree_square {
  view<T const> a;

  struct squared {
    row_elements<T> of;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      P const x = of.template at<P>(j);
      return x * x;
    }
  };
  HEADMIX_HD squared row(Index i) const { return {{a.row(i), a.col_stride}}; }
};

}  // namespace headmix::cuda_kernels
