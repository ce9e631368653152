#pragma once
// SPDX-License-Identifier: MIT
// Products with experts as one dense product, if the experts' matrices are blocks of one matrix, as those of heads are,
// and a row chooses many of them: rows of slots are scattered to their expert's block, with zeros where nothing was
// chosen. This multiplies more than the chosen blocks, at the rate of a dense product, and stores no product of a slot.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/products/gemm.hpp"
#include "headmix/backend/cuda/kernel/products/matrix_tile.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

/// The expert of each slot, from the expert order; -1: none.
struct find_slot_experts {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  slot_lists slots;
  Int* expert;

  [[nodiscard]] Index blocks() const { return blocks_for(slots.count(), threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i >= slots.count()) return;
    Index low = 0, high = slots.experts();  // the first expert that ends after the slot, or none
    while (low < high) {
      Index const middle = (low + high) / 2;
      if (slots.end(middle) <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    device.store(expert + slots.slot(i), low < slots.experts() ? static_cast<Int>(low) : Int{-1});
  }
};

/// z: for each row and each expert the row of x of the slot that chose it, or 0; the sum over several such slots. A
/// thread computes 8 elements.
template <Half T>
struct densify_slots {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  T* z;  ///< [rows, experts * depth]
  view<T const> x;
  Int const* expert;
  Index rows;
  int per_row;
  divisor of_row, of_expert;  ///< chunks of 8 elements

  static_assert((Index{1} << 31) % threads == 0,
                "headmix: of fewer than 2^31 chunks (spread_shape::possible) no thread has a number of 2^31 or more");
  [[nodiscard]] Index chunks() const { return rows * of_row.n; }
  [[nodiscard]] Index blocks() const { return blocks_for(chunks(), threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Int const i = static_cast<Int>(device.block() * threads + device.thread()), row = i / of_row;
    if (row >= rows) return;
    Int const chunk = i - row * of_row.n, block_expert = chunk / of_expert,
              col = (chunk - block_expert * of_expert.n) * 8;
    words<4> sum = {};
    bool found = false;
    for (int k = 0; k < per_row; ++k) {
      Index const slot = Index{row} * per_row + k;
      if (device.load(expert + slot) != block_expert) continue;
      words<4> const eight = device.load16(x.data + slot * x.row_stride + col);
      HEADMIX_UNROLL
      for (int w = 0; w < 4; ++w) {
        std::uint32_t& both = sum.word[w];
        std::uint32_t const more = eight.word[w];
        both = found ? pack<T>(low_of<T>(both) + low_of<T>(more), high_of<T>(both) + high_of<T>(more)) : more;
      }
      found = true;
    }
    device.store16(z + Index{i} * 8, sum);
  }
};

/// True if the matrices of a stack are blocks of one matrix: stacked vertically, or side by side.
template <class T>
[[nodiscard]] bool stacked_vertically(view<T> const& w) {
  return w.stack_stride == w.rows * w.row_stride;
}
template <class T>
[[nodiscard]] bool stacked_horizontally(view<T> const& w) {
  return w.stack_stride == w.cols * w.col_stride;
}
/// The matrix whose blocks are the stack.
template <class T>
[[nodiscard]] view<T> as_one_matrix(view<T> const& w, bool below) {
  view<T> all = w[0];
  (below ? all.rows : all.cols) *= w.count;
  return all;
}

/// The shape of scattered rows: for each of `rows` rows `width` elements of each expert.
struct densified_shape {
  Index rows, experts, width, per_row;

  [[nodiscard]] bool possible() const {
    return rows > 0 && experts > 1 && width > 0 && width % 8 == 0 &&
           rows * (experts * width / 8) < (std::numeric_limits<Int>::max)();
  }
  [[nodiscard]] std::size_t scratch_bytes(std::size_t element) const {
    return 16 + checked_bytes(checked(rows) * experts * width, element) +
           checked_bytes(checked(rows) * per_row, sizeof(Int));
  }
};
/// Computes the scattered rows at `free`, a multiple of 16 bytes. Rows of x are aligned.
template <class Queue, Half T>
[[nodiscard]] view<T const> densify(Queue& queue, densified_shape const& shape, view<T const> x,
                                    slot_lists const& slots, std::byte* free) {
  Index const width = shape.experts * shape.width;
  T* const z = reinterpret_cast<T*>(free);
  auto* const expert = reinterpret_cast<Int*>(z + shape.rows * width);
  find_slot_experts const find{slots, expert};
  queue.launch(find, find.blocks());
  densify_slots<T> const kernel{
      z, x, expert, shape.rows, static_cast<int>(shape.per_row), divisor(width / 8), divisor(shape.width / 8)};
  queue.launch(kernel, kernel.blocks());
  return {z, shape.rows, width};
}
template <class Queue, class T>
void dense_product(Queue& queue, view<T> y, view<T const> a, view<T const> b, bool accumulate) {
  if (!queue.gemm(y, a, b, accumulate)) gemm<accumulator_t<T>>(queue, y, a, b, accumulate);
}

// Whether a product is dense depends on extents and strides alone. Scattered elements are written and read, as products
// of slots are: each costs about 500 multiplications of a dense product.

/// The dense form of grouped_sum: y = densify(x) w.
template <class T>
struct dense_sum {
  densified_shape shape = {0, 0, 0, 0};
  bool applies = false;

  dense_sum(view<T> const& y, view<T const> const& x, view<T const> const& w) {
    if constexpr (Half<T>) {
      if (y.size() == 0 || w.size() == 0 || x.rows % y.rows != 0 || !stacked_vertically(w)) return;
      shape = {y.rows, w.count, w.rows, x.rows / y.rows};
      constexpr Index cost = tuning::dense.element_cost;
      applies = shape.possible() && w.count * w.rows * (y.cols + cost) < cost * shape.per_row * y.cols;
    }
  }
};

/// The dense form of grouped_outer, with rows of x or of g for each slot: y = x' densify(g), or densify(x)' g. For
/// narrow matrices the grouped products are slower.
template <class T>
struct dense_outer {
  densified_shape shape = {0, 0, 0, 0};
  bool densifies_x = false, applies = false;

  dense_outer(view<T> const& y, view<T const> const& x, view<T const> const& g) {
    if constexpr (Half<T>) {
      densifies_x = x.rows > g.rows;
      Index const rows = densifies_x ? g.rows : x.rows, all = densifies_x ? x.rows : g.rows;
      if (y.size() == 0 || rows == 0 || all == rows || all % rows != 0 || x.count * g.count != 1) return;
      if (!(densifies_x ? stacked_vertically(y) : stacked_horizontally(y))) return;
      shape = {rows, y.count, densifies_x ? y.rows : y.cols, all / rows};
      constexpr tuning::dense_experts t = tuning::dense;
      Index const other = densifies_x ? y.cols : y.rows;
      Index const work = (std::min)(y.rows, y.cols) <= t.narrow_side ? t.narrow_gradient_work : t.gradient_work;
      applies = shape.possible() && y.count * (other + t.element_cost) < work * shape.per_row * other;
    }
  }
};

}  // namespace headmix::cuda_kernels
