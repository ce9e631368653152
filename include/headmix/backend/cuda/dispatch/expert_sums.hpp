#pragma once
// SPDX-License-Identifier: MIT
// Products with the weights of experts that are sums over slots, of a row (grouped_sum) or of an expert
// (grouped_outer): which kernels run, with which scratch memory. Kernels are in kernel/experts, without a queue; all
// decisions of the host and launches are here, decisions first.
//
// Both are one dense product of scattered rows where dense_sum or dense_outer applies. Otherwise grouped_sum stores the
// products of slots, some columns at a time, and adds them. grouped_outer in 16 bits with aligned rows:
// grouped_outer_warpgroups where grouped_outer_by_warpgroups supports the problem, otherwise grouped_outer_tensor;
// grouped_outer_plain for the rest.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/dispatch/experts.hpp"
#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/dispatch/products.hpp"
#include "headmix/backend/cuda/dispatch/rows.hpp"
#include "headmix/backend/cuda/kernel/divisor.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_dense.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_outer.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_outer_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_sum.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- which kernels ----

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

/// The configuration of grouped_outer for aligned rows. A function of shapes alone, since the order of the sums depends
/// on it.
struct grouped_outer_plan {
  int rows = tuning::sm80::grouped_outer.rows;        ///< of a tile
  int columns = tuning::sm80::grouped_outer.columns;  ///< of a tile
  int parts = 1;  ///< enough blocks for a large device, unless they have too little work

  template <class T>
  grouped_outer_plan(view<T> const& y, view<T const> const& x, view<T const> const& g) {
    if (y.size() == 0) return;
    Index const slots = (std::max)(x.count * x.rows, g.count * g.rows);  // x or g has a row for each slot
    constexpr int narrow = tuning::sm80::grouped_outer.narrow;
    if (y.cols <= narrow) {
      columns = narrow;
    } else if (y.rows <= narrow) {
      rows = narrow;
    }
    Index const tiles = y.count * blocks_for(y.rows, rows) * blocks_for(y.cols, columns);
    constexpr tuning::slot_splits t = tuning::outer_splits;
    Index const enough = t.tiles / tiles, worthwhile = slots / (t.min_slots * y.count);
    parts = static_cast<int>((std::clamp)((std::min)(enough, worthwhile), Index{1}, t.max_splits));
  }
};

/// Columns of y whose parts are in scratch memory at a time. `dense`: parts are needed only for unaligned rows.
[[nodiscard]] inline Index columns_of_parts(bool dense, Index all) {
  return (std::min)(all, dense ? tuning::dense_slot_sum_columns : tuning::slot_sum_columns);
}

// ---- scratch memory ----

/// Scratch bytes of grouped_sum.
template <class Queue, class T>
[[nodiscard]] std::size_t grouped_sum_scratch_bytes(Queue const&, view<T> y, std::type_identity_t<view<T const>> x,
                                                    std::type_identity_t<view<T const>> w) {
  dense_sum<T> const dense(y, x, w);
  Index const cols = columns_of_parts(dense.applies, y.cols);
  std::size_t const parts = 16 + checked_bytes(checked(x.rows) * cols, sizeof(T));
  return dense.applies ? (std::max)(parts, dense.shape.scratch_bytes(sizeof(T))) : parts;
}

/// Scratch bytes of grouped_outer.
template <class T>
[[nodiscard]] std::size_t grouped_outer_scratch_bytes(view<T> y, std::type_identity_t<view<T const>> x,
                                                      std::type_identity_t<view<T const>> g) {
  std::size_t bytes = 0;
  if constexpr (Half<T>) {
    int const parts = grouped_outer_plan(y, x, g).parts;
    if (parts > 1) bytes = 16 + checked_bytes(checked(parts) * y.size(), sizeof(float));
    if (dense_outer<T> const dense(y, x, g); dense.applies)
      bytes = (std::max)(bytes, dense.shape.scratch_bytes(sizeof(T)));
  }
  return bytes;
}

// ---- launches ----

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

/// Memory for the products of slots: [slots, cols], at a multiple of 16 bytes of scratch memory.
template <class T>
[[nodiscard]] view<T> slot_parts(std::span<std::byte> scratch, Index slots, Index cols) {
  auto const address = reinterpret_cast<std::uintptr_t>(scratch.data());
  return {reinterpret_cast<T*>(scratch.data() + (16 - address % 16) % 16), slots, cols};
}
/// y_r (+)= the sum of the rows of `parts` that are slots of row r.
template <class Queue, class T>
void add_slots(Queue& queue, view<T> y, view<T> parts, Index slots_per_row, bool accumulate) {
  if constexpr (Half<T>) {
    if (y.count == 1 && rows_are_aligned(y)) {
      slot_sum<T> const kernel{y, parts.data, static_cast<int>(slots_per_row), accumulate};
      return queue.launch(kernel, kernel.blocks());
    }
  }
  using leaf = tree_leaf<T, false, false>;
  map<accumulator_t<T>>(queue, y, tree_group<leaf>{leaf{parts}, slots_per_row}, accumulate);
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
  dense_sum<T> const dense(y, x, w);
  Index const at_once = columns_of_parts(dense.applies, y.cols);
  view<T> const free = slot_parts<T>(scratch, x.rows, at_once);
  if constexpr (Half<T>) {
    if (dense.applies && x.count == 1 && y.count == 1 && rows_are_aligned(x)) {
      view<T const> const z = densify(queue, dense.shape, x, slots, reinterpret_cast<std::byte*>(free.data));
      return dense_product(queue, y, z, as_one_matrix(w, true), accumulate);
    }
  }
  for (Index col = 0; col < y.cols; col += at_once) {
    Index const cols = (std::min)(at_once, y.cols - col);
    view<T> const parts(free.data, x.rows, cols);
    grouped_gemm(queue, parts, x, w.middle_cols(col, cols), perm, offsets, 1, {});
    add_slots(queue, y.middle_cols(col, cols), parts, slots_per_row, accumulate);
  }
}

/// grouped_sum of x[0] and w[0], and of x[1] and w[1], together, in the scratch memory of either.
template <class Queue, class T>
void grouped_sum_pair(Queue& queue, view<T> y, std::array<view<T const>, 2> const& x,
                      std::array<view<T const>, 2> const& w, view<Int const> perm, view<Int const> offsets,
                      Index slots_per_row, bool accumulate, std::span<std::byte> scratch) {
  if (y.size() == 0) return;
  if constexpr (std::is_same_v<T, bfloat16> && WarpgroupQueue<Queue>) {
    auto const both = [](auto const& holds) { return holds(0) && holds(1); };
    bool const plain = both([&](std::size_t i) { return rows_are_aligned(w[i]); });
    bool const flipped = both([&](std::size_t i) { return rows_are_aligned(w[i].transposed()); });
    bool const fits =
        slots_per_row > 1 && y.count == 1 && rows_are_aligned(y) && (plain || flipped) && both([&](std::size_t i) {
          return x[i].count == 1 && rows_are_aligned(x[i]) && !dense_sum<T>(y, x[i], w[i]).applies;
        });
    if (fits && warpgroups_sum_pair(queue, x, w, !plain)) {
      slot_lists const slots(perm, offsets, 1);
      Index const at_once = columns_of_parts(false, y.cols);
      view<T> const free = slot_parts<T>(scratch, x[0].rows, at_once);
      for (Index col = 0; col < y.cols; col += at_once) {
        Index const cols = (std::min)(at_once, y.cols - col);
        view<T> const parts(free.data, x[0].rows, cols);
        std::array<view<T const>, 2> const of = {w[0].middle_cols(col, cols), w[1].middle_cols(col, cols)};
        if (plain) {
          grouped_gemm_pair<false>(queue, parts, x, of, slots);
        } else {
          grouped_gemm_pair<true>(queue, parts, x, of, slots);
        }
        add_slots(queue, y.middle_cols(col, cols), parts, slots_per_row, accumulate);
      }
      return;
    }
  }
  grouped_sum(queue, y, x[0], w[0], perm, offsets, slots_per_row, accumulate, scratch);
  grouped_sum(queue, y, x[1], w[1], perm, offsets, slots_per_row, true, scratch);
}

/// grouped_outer_tensor by warpgroups; false if they do not support the problem: the queue has none, or the matrices
/// are small.
template <class Queue>
bool grouped_outer_by_warpgroups(Queue& queue, view<bfloat16> y, view<bfloat16 const> x, view<bfloat16 const> g,
                                 slot_lists const& slots, divisor g_per_row, bool accumulate, int parts,
                                 float* partial) {
  if constexpr (WarpgroupQueue<Queue>) {
    constexpr Index min_side = tuning::sm90a::grouped_outer.min_side, full_side = tuning::sm90a::grouped_outer.side;
    if (!queue.warpgroups() || y.rows <= min_side || y.cols <= min_side || (y.rows <= full_side && y.cols <= full_side))
      return false;
    auto const launch = [&](auto const& kernel) { queue.launch(kernel, kernel.blocks(queue.processors())); };
    if (y.rows > full_side) {
      launch(grouped_outer_warpgroups<true>{y, x, g, slots, g_per_row, accumulate, parts, partial});
    } else {
      launch(grouped_outer_warpgroups<false>{y, x, g, slots, g_per_row, accumulate, parts, partial});
    }
    return true;
  } else {
    return false;
  }
}

/// y_e (+)= the sum over the slots s of expert e of x_{s / x_slots}^T g_{s / g_slots}. y is a stack with a matrix for
/// each expert; perm and offsets are the expert order. An expert without slots gets 0, or is unchanged with
/// accumulation.
template <class Queue, class T>
void grouped_outer(Queue& queue, view<T> y, std::type_identity_t<view<T const>> x,
                   std::type_identity_t<view<T const>> g, view<Int const> perm, view<Int const> offsets, Index x_slots,
                   Index g_slots, bool accumulate, std::span<std::byte> scratch) {
  slot_lists const slots(perm, offsets, x_slots);
  divisor const g_per_row(g_slots);
  if (y.size() == 0) return;
  if constexpr (Half<T>) {
    auto const address = reinterpret_cast<std::uintptr_t>(scratch.data());
    std::byte* const aligned = scratch.data() + (16 - address % 16) % 16;
    dense_outer<T> const dense(y, x, g);
    if (dense.applies && rows_are_aligned(dense.densifies_x ? x : g)) {
      view<T const> const z = densify(queue, dense.shape, dense.densifies_x ? x : g, slots, aligned);
      view<T const> const left = dense.densifies_x ? z : x, right = dense.densifies_x ? g : z;
      return dense_product(queue, as_one_matrix(y, dense.densifies_x), left.transposed(), right, accumulate);
    }
    if (x.count == 1 && g.count == 1 && rows_are_aligned(x) && rows_are_aligned(g) && rows_are_aligned(y)) {
      auto const [rows, columns, parts] = grouped_outer_plan(y, x, g);
      auto* const partial = parts > 1 ? reinterpret_cast<float*>(aligned) : nullptr;
      auto const launch = [&](auto const& kernel) { queue.launch(kernel, kernel.blocks()); };
      constexpr int wide = tuning::sm80::grouped_outer.columns, narrow = tuning::sm80::grouped_outer.narrow;
      if (!grouped_outer_by_warpgroups(queue, y, x, g, slots, g_per_row, accumulate, parts, partial)) {
        if (columns == narrow) {
          launch(grouped_outer_tensor<T, narrow>{y, x, g, slots, g_per_row, accumulate, parts, partial});
        } else if (rows == narrow) {
          launch(grouped_outer_tensor<T, wide, narrow>{y, x, g, slots, g_per_row, accumulate, parts, partial});
        } else {
          launch(grouped_outer_tensor<T, wide>{y, x, g, slots, g_per_row, accumulate, parts, partial});
        }
      }
      if (parts > 1) launch(grouped_outer_sum<T>{y, partial, parts, accumulate});
      return;
    }
    notify_plain_kernel("the gradient of experts' weights", rows_not_aligned);
  }
  grouped_outer_plain<T> const kernel{y, x, g, slots, g_per_row, accumulate};
  queue.launch(kernel, kernel.blocks());
}

}  // namespace headmix::cuda_kernels
