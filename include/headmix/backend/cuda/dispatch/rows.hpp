#pragma once
// SPDX-License-Identifier: MIT
// Functions of elements, rows and columns: which form of a kernel runs, with how many threads for a row. Kernels are in
// kernel/rows, without a queue; all decisions of the host and launches are here, decisions first.
//
// Maps and row sums in float and in 16 bits compute vectors of elements where rows_are_vectors, others single elements.
// A row has a team of lanes or a block, by its length (team::for_row_of). Column sums of many rows take two launches,
// ternary weights three.

#include <cstddef>
#include <type_traits>

#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/kernel/rows/each_row.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/kernel/rows/quantize.hpp"
#include "headmix/backend/cuda/kernel/rows/reduce.hpp"
#include "headmix/backend/cuda/kernel/rows/rotary.hpp"
#include "headmix/backend/cuda/kernel/rows/sequence.hpp"
#include "headmix/backend/cuda/kernel/rows/softmax.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/contract/position.hpp"
#include "headmix/contract/row_steps.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- which form ----

/// True if strides and addresses allow float_vectors for a whole row of `cols` elements.
template <class W, class Tree>
[[nodiscard]] bool rows_are_vectors(Tree const& tree, Index cols) {
  if constexpr (has_vectors<W, Tree>) {
    return cols % float_vector::width == 0 && tree.unit_stride() && tree.aligned(float_vector::alignment);
  } else {
    return false;
  }
}

/// True if a map can store float_vectors.
template <class W, class T, class Tree>
[[nodiscard]] bool map_in_vectors(view<T> const& y, Tree const& tree) {
  return maps_vectors<W, T, Tree> && rows_are_vectors<W>(tree, y.cols) && y.col_stride == 1 &&
         y.aligned(float_vector::alignment);
}

/// The step of each_row_kernel: of float_vectors where strides and addresses allow them.
template <class W, class S>
S const& with_vectors(S const& s) {
  return s;
}
template <class W, class T, class Tree>
requires maps_vectors<W, T, Tree> vector_step<row_step::map<T, Tree>> with_vectors(row_step::map<T, Tree> const& s) {
  return {s, map_in_vectors<W>(s.y, s.tree)};
}
template <class W, class T, class Tree>
vector_step<row_step::sum<T, Tree>> with_vectors(row_step::sum<T, Tree> const& s) {
  return {s, rows_are_vectors<W>(s.a.tree, s.a.cols)};
}

/// The most elements of a row that a step reads or writes.
template <class T, class Tree>
[[nodiscard]] Index widest(row_step::sum<T, Tree> const& s) {
  return s.a.cols;
}
template <class S>
[[nodiscard]] Index widest(S const& s) {
  return s.y.cols;
}

/// The team of a row: tuning::each_row.
[[nodiscard]] constexpr team lanes_of_rows(Index rows, Index columns) {
  constexpr tuning::each_row_lanes t = tuning::each_row;
  if (rows < t.many_rows || columns < t.min_lanes) return team::of_lanes_for(columns);
  Index const lanes = columns / t.lane_columns;
  return team::of_lanes_for(lanes > t.min_lanes ? lanes : t.min_lanes);
}

// ---- launches ----

template <class W, class Queue, class T, class Tree>
void map(Queue& queue, view<T> y, Tree const& tree, bool accumulate) {
  using kernel = map_kernel<W, T, Tree>;
  if (y.size() == 0) return;
  bool const vectors = map_in_vectors<W>(y, tree);
  Index const rows = y.count * y.rows, max_rows = kernel::max_elements / y.cols;
  if (max_rows == 0) fail("map: ", y.cols, " columns are more than the ", kernel::max_elements, " of one launch");
  for (Index first = 0; first < rows; first += max_rows) {
    kernel const part = {y, tree, accumulate, first, rows - first < max_rows ? rows - first : max_rows, vectors};
    queue.launch(part, part.blocks());
  }
}

/// f(i) for all i < n.
template <class Queue, class F>
void for_each(Queue& queue, Index n, F const& f) {
  using kernel = for_each_kernel<F>;
  queue.launch(kernel{f, n}, blocks_for(n, kernel::threads));
}

template <class W, class Queue, class T, class Tree>
void row_sum(Queue& queue, view<T> y, lazy<Tree> const& a, bool accumulate) {
  bool const vectors = rows_are_vectors<W>(a.tree, a.cols);
  team const members = team::for_row_of(vectors ? a.cols / float_vector::width : a.cols);
  queue.launch(row_sum_kernel<W, T, Tree>{y, a, accumulate, members, vectors}, members.blocks(a.rows));
}

/// Many rows are summed in chunks, whose sums a second launch adds in order.
template <class W, class Queue, class T, class Tree>
void col_sum(Queue& queue, view<T> y, lazy<Tree> const& a, bool accumulate) {
  constexpr Index enough_blocks = tuning::column_sums.blocks, min_rows = tuning::column_sums.min_rows;
  if (a.cols == 0) return;
  team const columns = team::of_lanes_for(a.cols);
  Index const column_blocks = blocks_for(a.cols, columns.size());
  Index chunks = enough_blocks / column_blocks, most = blocks_for(a.rows, min_rows);
  if (chunks > most) chunks = most;
  if (chunks <= 1) {
    queue.launch(col_sum_kernel<W, T, Tree>{y.transposed(), a, accumulate, columns, column_blocks, a.rows},
                 column_blocks);
    return;
  }
  Index const rows_per_chunk = blocks_for(a.rows, chunks);
  chunks = blocks_for(a.rows, rows_per_chunk);
  // At most enough_blocks * 32 numbers.
  view<W> const partial(reinterpret_cast<W*>(queue.workspace().data()), a.cols, chunks);
  queue.launch(col_sum_kernel<W, W, Tree>{partial, a, false, columns, column_blocks, rows_per_chunk},
               column_blocks * chunks);
  row_sum<W>(queue, y.transposed(), lazy<tree_leaf<W, false, false>>{{partial}, a.cols, chunks}, accumulate);
}

/// y [1, 1] = the sum of the squares of a [R, 1].
template <class W, class Queue, class T>
void sum_of_squares(Queue& queue, view<T> y, view<T const> a) {
  col_sum<W>(queue, y, lazy<tree_square<T>>{{a}, a.rows, a.cols}, false);
}

template <class W, class Queue, class T, class A>
void softmax(Queue& queue, view<T> y, view<A const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(softmax_kernel<W, T, A>{y, a, members}, members.blocks(a.rows));
}

template <class W, class Queue, class T, class A>
void log_sum_exp(Queue& queue, view<T> y, view<A const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(log_sum_exp_kernel<W, T, A>{y, a, members}, members.blocks(a.rows));
}

/// y_i = clamp(round(a_i s), -128, 127) / s, s = 127 / max(max_j |a_ij|, 1e-5)
template <class Queue, class T>
void absmax_int8(Queue& queue, view<T> y, view<T const> a) {
  team const members = team::for_row_of(a.cols);
  queue.launch(absmax_int8_kernel<T>{y, a, members}, members.blocks(a.rows));
}

/// y_e = clamp(round(a_e / s), -1, 1) s for every matrix, s = max(mean |a_e|, 1e-5). Parts of each matrix are summed,
/// then their sums, in order.
template <class Queue, class T>
void absmean_ternary(Queue& queue, view<T> y, view<T const> a) {
  using W = accumulator_t<T>;
  constexpr Index enough_parts = tuning::absmean_parts;  // of all matrices
  if (y.size() == 0) return;
  Index parts = enough_parts / a.count;
  if (parts > a.rows) parts = a.rows;
  Index const rows = blocks_for(a.rows, parts > 0 ? parts : 1);
  parts = blocks_for(a.rows, rows);
  auto const workspace = queue.workspace();
  if (std::size_t const bytes = sizeof(W) * static_cast<std::size_t>(a.count * (parts + 1)); workspace.size() < bytes) {
    fail("the Cuda backend's workspace has ", workspace.size(), " bytes; ternary weights of ", a.count,
         " matrices take ", bytes);
  }
  view<W> const sums(reinterpret_cast<W*>(workspace.data()), 1, a.count), partial(sums.data + a.count, a.count, parts);
  row_sum<W>(queue, view<W>(partial.data, a.count * parts, 1),
             lazy<tree_absolute<T>>{{a, parts, rows}, a.count * parts, a.cols}, false);
  row_sum<W>(queue, sums.transposed(), lazy<tree_leaf<W, false, false>>{{partial}, a.count, parts}, false);
  team const members = team::for_row_of(a.cols);
  queue.launch(absmean_ternary_kernel<T>{y, a, sums.data, members}, members.blocks(a.count * a.rows));
}

/// y_i = the sequence number of row i.
template <class Queue>
void sequence_numbers(Queue& queue, view<Int> y, segments s) {
  if (y.rows > 0) queue.launch(sequence_numbers_kernel{y, s}, blocks_for(y.rows, sequence_numbers_kernel::threads));
}

/// y_t = the mean of a_s over the positions t - window < s <= t of its sequence; transposed, y_s = the sum over all t
/// with s in the window of t of a_t / (window length of t).
template <class Queue, class T>
void window_mean(Queue& queue, view<T> y, view<T const> a, segments s, Index window, bool transposed) {
  using kernel = window_mean_kernel<accumulator_t<T>, T>;
  if (y.rows == 0 || y.cols == 0) return;
  queue.launch(kernel{y, a, s, window, transposed},
               blocks_for(y.cols, kernel::threads) * blocks_for(y.rows, kernel::rows));
}

template <class W, class Queue, class T>
void rotary(Queue& queue, view<T> y, view<T const> a, view<W const> theta, row_positions tokens, Index heads,
            rotation r) {
  using kernel = rotary_kernel<W, T>;
  if (tokens.rows == 0) return;
  kernel const k{y, a, theta, tokens, heads, r};
  queue.launch(k, blocks_for(tokens.rows * k.columns(), kernel::threads));
}

HEADMIX_HD constexpr step_list<> list_of() { return {}; }
template <class First, class... Rest>
step_list<First, Rest...> list_of(First const& first, Rest const&... rest) {
  return {first, list_of(rest...)};
}
/// @param rows  rows of every operand that has more than one
template <class W, class Queue, class... S>
void each_row(Queue& queue, Index rows, S const&... s) {
  Index columns = 1;
  ((columns = widest(s) > columns ? widest(s) : columns), ...);
  team const members = lanes_of_rows(rows, columns);
  auto const launch = [&](auto const&... step) {
    queue.launch(each_row_kernel<W, std::remove_cvref_t<decltype(step)>...>{list_of(step...), rows, members},
                 members.blocks(rows));
  };
  launch(with_vectors<W>(s)...);
}

}  // namespace headmix::cuda_kernels
