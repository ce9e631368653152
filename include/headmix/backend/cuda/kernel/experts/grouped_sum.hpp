#pragma once
// SPDX-License-Identifier: MIT
// Grouped product summed over the slots of a row: y_r (+)= the sum over the slots s of row r of x_s w_e. If a row
// chooses many of the experts it is a dense product. Otherwise the slots' products, the parts, are stored in scratch
// memory, where the slots of a row are adjacent, and added in order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/kernel/experts/grouped_dense.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// y_r (+)= the sum of rows r n .. r n + n - 1 of `parts`, a contiguous matrix; a thread has 8 elements of a row.
template <Half T>
struct slot_sum {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  T const* parts;
  int n;
  bool accumulate;

  [[nodiscard]] Index blocks() const { return blocks_for(y.size() / 8, threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const chunks = y.cols / 8, i = device.block() * threads + device.thread();
    if (i >= y.rows * chunks) return;
    Index const row = i / chunks, col = i % chunks * 8;
    T* const to = y.data + row * y.row_stride + col;
    words<4> sums = accumulate ? device.load16(to) : words<4>{};
    float sum[8] = {};
    T const* from = parts + row * n * y.cols + col;
    for (int s = 0; s < n; ++s, from += y.cols) {
      words<4> const eight = device.load16(from);
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) {
        sum[2 * w] += low_of<T>(eight.word[w]);
        sum[2 * w + 1] += high_of<T>(eight.word[w]);
      }
    }
    HEADMIX_UNROLL
    for (int w = 0; w < 4; ++w) {
      std::uint32_t& word = sums.word[w];
      word = pack<T>(low_of<T>(word) + sum[2 * w], high_of<T>(word) + sum[2 * w + 1]);
    }
    device.store16(to, sums);
  }
};

/// Columns of y whose parts are in scratch memory at a time. `dense`: parts are needed only for unaligned rows.
[[nodiscard]] inline Index columns_of_parts(bool dense, Index all) {
  return (std::min)(all, dense ? tuning::dense_slot_sum_columns : tuning::slot_sum_columns);
}
/// Scratch bytes of grouped_sum.
template <class Queue, class T>
[[nodiscard]] std::size_t grouped_sum_scratch_bytes(Queue const&, view<T> y, std::type_identity_t<view<T const>> x,
                                                    std::type_identity_t<view<T const>> w) {
  dense_sum<T> const dense(y, x, w);
  Index const cols = columns_of_parts(dense.applies, y.cols);
  std::size_t const parts = 16 + checked_bytes(checked(x.rows) * cols, sizeof(T));
  return dense.applies ? (std::max)(parts, dense.shape.scratch_bytes(sizeof(T))) : parts;
}

/// y_r (+)= the sum over the slots s of row r, s / slots_per_row = r, of x_s w_e, e being the expert of the slot. w,
/// perm and offsets as in grouped_gemm.
template <class Queue, class T>
void grouped_sum(Queue& queue, view<T> y, std::type_identity_t<view<T const>> x, std::type_identity_t<view<T const>> w,
                 view<Int const> perm, view<Int const> offsets, Index slots_per_row, bool accumulate,
                 std::span<std::byte> scratch) {
  if (y.size() == 0) return;
  if (slots_per_row == 1 && !accumulate) return grouped_gemm(queue, y, x, w, perm, offsets, 1, {});
  slot_lists const slots(perm, offsets, slots_per_row);
  auto const address = reinterpret_cast<std::uintptr_t>(scratch.data());
  std::byte* const aligned = scratch.data() + (16 - address % 16) % 16;
  dense_sum<T> const dense(y, x, w);
  if constexpr (Half<T>) {
    if (dense.applies && x.count == 1 && y.count == 1 && rows_are_aligned(x)) {
      view<T const> const z = densify(queue, dense.shape, x, slots, aligned);
      return dense_product(queue, y, z, as_one_matrix(w, true), accumulate);
    }
  }
  Index const at_once = columns_of_parts(dense.applies, y.cols);
  T* const free = reinterpret_cast<T*>(aligned);
  for (Index col = 0; col < y.cols; col += at_once) {
    Index const cols = y.cols - col < at_once ? y.cols - col : at_once;
    view<T> const parts(free, x.rows, cols), to = y.middle_cols(col, cols);
    grouped_gemm(queue, parts, x, w.middle_cols(col, cols), perm, offsets, 1, {});
    if constexpr (Half<T>) {
      if (to.count == 1 && rows_are_aligned(to)) {
        slot_sum<T> const kernel{to, parts.data, static_cast<int>(slots_per_row), accumulate};
        queue.launch(kernel, kernel.blocks());
        continue;
      }
    }
    using leaf = tree_leaf<T, false, false>;
    map<accumulator_t<T>>(queue, to, tree_group<leaf>{leaf{parts}, slots_per_row}, accumulate);
  }
}

}  // namespace headmix::cuda_kernels
