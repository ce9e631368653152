#pragma once
// SPDX-License-Identifier: MIT
// Dense products of any types and strides, for cases that cuBLAS does not support. Kernels are in kernel/products,
// without a queue; all decisions of the host and launches are here.
//
// gemm_kernel, in parts where the result has few elements with long sums; the parts are in the queue's workspace, and a
// map adds them.

#include "headmix/backend/cuda/dispatch/rows.hpp"
#include "headmix/backend/cuda/kernel/products/gemm.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// Few elements with long sums, as in a router's gradient, are computed in parts, for more blocks.
template <class W, class Queue, class T, class A, class B>
void gemm(Queue& queue, view<T> y, view<A const> a, view<B const> b, bool accumulate) {
  constexpr tuning::split_k split = tuning::gemm_split;
  using kernel = gemm_kernel<W, T, A, B>;
  Index const blocks = kernel::blocks(y.rows, y.cols);
  if (blocks == 0) return;
  Index const parts_in_workspace = static_cast<Index>(queue.workspace().size() / sizeof(W)) / (y.rows * y.cols);
  Index parts = split.blocks / blocks, least_parts = a.cols / split.max_depth;
  if (parts < least_parts) parts = least_parts;
  for (Index const most : {a.cols / split.min_depth, parts_in_workspace}) parts = parts < most ? parts : most;
  if (parts <= 1) return queue.launch(kernel{y, a, b, accumulate, a.cols}, blocks);
  Index const part_depth = blocks_for(blocks_for(a.cols, parts), kernel::depth) * kernel::depth;
  view<W> const partial(reinterpret_cast<W*>(queue.workspace().data()), blocks_for(a.cols, part_depth), y.rows, y.cols);
  queue.launch(gemm_kernel<W, W, A, B>{partial, a, b, false, part_depth}, blocks * partial.count);
  map<W>(queue, y, tree_stack_sum<W>{partial}, accumulate);
}

}  // namespace headmix::cuda_kernels
