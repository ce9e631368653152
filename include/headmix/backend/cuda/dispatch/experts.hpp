#pragma once
// SPDX-License-Identifier: MIT
// The order of slots by expert, and products with the weights of experts: which kernel runs, with which scratch memory.
// Kernels are in kernel/experts, without a queue; all decisions of the host and launches are here and, for sums over
// slots, in expert_sums.hpp, decisions first.
//
// Order: three launches for each digit of the keys (digit_plan). grouped_gemm in 16 bits with aligned rows: warpgroup
// kernels where grouped_gemm_by_warpgroups supports the problem, grouped_gemm_resident for weights of few rows,
// otherwise grouped_gemm_tensor; grouped_gemm_plain for the rest. grouped_gemm_map: warpgroup kernels with the tree as
// epilogue where maps_in_registers, otherwise the products and a map; grouped_gemm_map_plain where there is no memory
// for the products.

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/dispatch/rows.hpp"
#include "headmix/backend/cuda/kernel/experts/capacity.hpp"
#include "headmix/backend/cuda/kernel/experts/expert_products.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_map.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_resident.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_resident_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_gemm_warpgroups.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/kernel/experts/sort_by_expert.hpp"
#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/backend/cuda/warpgroup.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- which kernel ----

/// The division of keys into digits.
struct digit_plan {
  int passes, bits;
  Int digits;  ///< per pass

  explicit digit_plan(Int choices) {
    int total = 0;
    while (choices >> total != 0) ++total;
    if (choices < digit_pass::max_digits) {
      passes = 1, bits = total, digits = choices + 1;
    } else {
      passes = (total + digit_pass::max_bits - 1) / digit_pass::max_bits;
      bits = (total + passes - 1) / passes;
      digits = Int{1} << bits;
    }
  }
  /// Workspace bytes for sorting `slots` slots: counts, totals, and the order between passes.
  [[nodiscard]] std::size_t bytes(Index slots) const {
    return sizeof(Int) * static_cast<std::size_t>(digits * (digit_pass::max_chunks + 1) + (passes > 1 ? slots : 0));
  }
};

/// A stack of matrices as one matrix: stacked vertically, or side by side.
struct stack_as_matrix {
  view<bfloat16 const> matrix;  ///< null data if it is neither
  int rows, cols;               ///< distance from one matrix of the stack to the next

  explicit stack_as_matrix(view<bfloat16 const> const& w) : matrix(w[0]), rows(0), cols(0) {
    if (w.count == 1) return;
    if (w.stack_stride == w.cols && w.row_stride >= w.count * w.cols) {
      cols = static_cast<int>(w.cols);
      matrix.cols = w.count * w.cols;
    } else if (w.row_stride > 0 && w.stack_stride % w.row_stride == 0 && w.stack_stride >= w.rows * w.row_stride) {
      rows = static_cast<int>(w.stack_stride / w.row_stride);
      matrix.rows = (w.count - 1) * rows + w.rows;
    } else {
      matrix.data = nullptr;
    }
  }
};

/// True if an int can number the 16-byte chunks of the aligned rows of x.
[[nodiscard]] inline bool chunks_are_counted(view<bfloat16 const> const& x) {
  constexpr Index most = Index{1} << 31;
  Index const chunks = x.rows * (x.row_stride / 8);
  return chunks < most && -chunks < most;
}

/// True if warpgroups support weights of these extents.
template <class Queue>
[[nodiscard]] bool supports_warpgroup_gemm(Queue const& queue, view<bfloat16 const> const& w) {
  if constexpr (WarpgroupQueue<Queue>) {
    return queue.warpgroups() && w.count > 0 && w.rows % panel_columns == 0;
  } else {
    return false;
  }
}

/// True if grouped_gemm_map needs no memory for unwanted products; a function of extents alone, as is its scratch
/// memory.
template <class Tree, class Queue>
[[nodiscard]] bool maps_in_registers(Queue const& queue, view<bfloat16> const& y, view<bfloat16 const> const& w) {
  return has_vectors<float, Tree> && supports_warpgroup_gemm(queue, w) && y.cols % float_vector::width == 0;
}

// ---- scratch memory ----

/// Scratch bytes of grouped_gemm.
template <class T>
[[nodiscard]] std::size_t grouped_gemm_scratch_bytes(view<T>, std::type_identity_t<view<T const>>,
                                                     std::type_identity_t<view<T const>>) {
  return 0;
}

/// Scratch bytes of grouped_gemm_map: for all products but one, which is stored in y.
template <class Queue, class Tree, std::size_t n>
[[nodiscard]] std::size_t grouped_gemm_map_scratch_bytes(Queue const& queue, view<bfloat16> y, Tree const&,
                                                         std::array<view<bfloat16 const>, n> const& w) {
  return maps_in_registers<Tree>(queue, y, w[0]) ? 0 : checked_bytes(y.size(), (n - 1) * sizeof(bfloat16));
}

// ---- launches: order ----

/// order: the slots by choice, ascending in each, those with choice -1 last; begins: [1, choices + 1], the first slot
/// of each choice, then the number of slots with a choice.
template <class Queue>
void sort_slots(Queue& queue, view<Int> order, view<Int> begins, slot_keys const& keys,
                std::span<std::byte> workspace) {
  digit_plan const plan(keys.choices);
  Index const n = keys.slots();
  if (workspace.size() < plan.bytes(n)) {
    fail("the Cuda backend's workspace has ", workspace.size(), " bytes; ordering ", n, " slots by ", keys.choices,
         " choices takes ", plan.bytes(n));
  }
  constexpr Index warps = digit_pass::warps;
  Index const slots_per_warp = blocks_for(blocks_for(n, digit_pass::max_chunks * warps), 32) * 32;
  Index const chunks = n == 0 ? 1 : blocks_for(n, warps * slots_per_warp);
  Int* const counts = reinterpret_cast<Int*>(workspace.data());
  Int* const totals = counts + plan.digits * digit_pass::max_chunks;
  view<Int> const other(totals + plan.digits, 1, n);
  view<Int const> from;
  for (int p = 0; p < plan.passes; ++p) {
    // The last pass writes the order; earlier passes alternate between two buffers.
    view<Int> const to = (plan.passes - p) % 2 == 1 ? order : other;
    digit_pass const pass = {keys,
                             from,
                             to,
                             p * plan.bits,
                             plan.bits,
                             plan.digits,
                             chunks,
                             slots_per_warp,
                             counts,
                             totals,
                             plan.passes == 1 ? begins : view<Int>()};
    scan_digits const scan{pass};
    queue.launch(count_digits{pass}, chunks);
    queue.launch(scan, scan.blocks());
    queue.launch(scatter_slots{pass}, chunks);
    from = to;
  }
  if (plan.passes > 1) {
    queue.launch(find_begins{keys, order, begins}, blocks_for(keys.choices + 1, find_begins::threads));
  }
}

/// perm: the slots (row * columns + column) of an index by sequence and expert, ascending in each, then the slots
/// without an expert; offsets: the first slot of each expert of each sequence, then the number of slots with an expert.
template <class Queue>
void sort_by_expert(Queue& queue, view<Int> perm, view<Int> offsets, view<Int const> index, segments rows) {
  Index const experts = rows.count > 0 ? (offsets.cols - 1) / rows.count : 0;
  sort_slots(queue, perm, offsets, {index, experts, rows}, queue.workspace());
}

/// y = index, and -1 for a slot after the first `capacity` slots of its expert. Slot s is choice s / rows of row s %
/// rows; `perm` and `offsets` are sort_by_expert of the transposed index.
template <class Queue>
void apply_capacity(Queue& queue, view<Int> y, view<Int const> index, view<Int const> perm, view<Int const> offsets,
                    Index capacity) {
  queue.launch(apply_capacity_kernel{y, index, perm, offsets, capacity},
               blocks_for(perm.cols, apply_capacity_kernel::threads));
}

// ---- launches: products ----

/// Warpgroup products of slots with weights of equal extents, with an epilogue; false if they do not support them:
/// extents, weights that are no matrix, or differing layouts. Rows of x and of the outputs, and of the weights or
/// (`transposed`) of their transposes, are aligned.
template <bool transposed, class Queue, class Output>
bool grouped_gemm_by_warpgroups(Queue& queue, Output const& output, view<bfloat16 const> x,
                                std::array<view<bfloat16 const>, Output::products> const& w, slot_lists const& slots) {
  if constexpr (WarpgroupQueue<Queue>) {
    if (!supports_warpgroup_gemm(queue, w[0]) || !chunks_are_counted(x)) return false;
    auto const stack = [](view<bfloat16 const> const& v) { return stack_as_matrix(transposed ? v.transposed() : v); };
    stack_as_matrix const first = stack(w[0]);
    for (view<bfloat16 const> const& v : w) {
      stack_as_matrix const all = stack(v);
      if (all.matrix.data == nullptr || all.rows != first.rows || all.cols != first.cols) return false;
    }
    auto const launch = [&]<class K>(K k) {
      for (std::size_t p = 0; p < w.size(); ++p) {
        k.weights[p] = queue.map_tensor(stack(w[p]).matrix, K::panel_rows);
      }
      queue.launch(k, k.blocks(queue.processors()));
    };
    using map = typename Queue::tensor_map;
    auto const operands = [&]<class K>(std::type_identity<K>) {
      return typename K::base{output, {x}, slots, static_cast<int>(w[0].rows), first.rows, first.cols, {}};
    };
    using resident = grouped_gemm_resident_warpgroups<transposed, map, Output>;
    using deep = grouped_gemm_warpgroups<tuning::sm90a::grouped_gemm.columns, transposed, map, Output>;
    if (w[0].rows <= resident::max_depth && output.y.cols > resident::product_columns) {
      auto const base = operands(std::type_identity<resident>{});
      launch(resident{base, resident::groups_for(slots.count(), base.column_tiles(), queue.processors())});
      return true;
    }
    if constexpr (Output::products == 1) {
      constexpr int narrow_columns = tuning::sm90a::grouped_gemm.narrow_columns;
      using narrow = grouped_gemm_warpgroups<narrow_columns, transposed, map, Output>;
      if (output.y.cols <= narrow_columns) {
        launch(narrow{operands(std::type_identity<narrow>{})});
        return true;
      }
    }
    launch(deep{operands(std::type_identity<deep>{})});
    return true;
  } else {
    return false;
  }
}

/// True if warpgroups sum the products x[0] w[0] and x[1] w[1], as grouped_gemm_by_warpgroups, with matrices of equal
/// extents and strides. Rows of weights that fit in shared memory are left to two products, which gather them once.
template <class Queue>
[[nodiscard]] bool warpgroups_sum_pair(Queue const& queue, std::array<view<bfloat16 const>, 2> const& x,
                                       std::array<view<bfloat16 const>, 2> const& w, bool transposed) {
  stack_as_matrix const of[] = {stack_as_matrix(transposed ? w[0].transposed() : w[0]),
                                stack_as_matrix(transposed ? w[1].transposed() : w[1])};
  return supports_warpgroup_gemm(queue, w[0]) && chunks_are_counted(x[0]) && x[0].row_stride == x[1].row_stride &&
         w[0].rows == w[1].rows && w[0].rows > tuning::sm90a::resident.max_steps * panel_columns &&
         of[0].matrix.data != nullptr && of[1].matrix.data != nullptr && of[0].rows == of[1].rows &&
         of[0].cols == of[1].cols;
}
/// y_s = x[0]_s w[0]_e + x[1]_s w[1]_e for every slot s of expert e; see warpgroups_sum_pair.
template <bool transposed, WarpgroupQueue Queue>
void grouped_gemm_pair(Queue& queue, view<bfloat16> y, std::array<view<bfloat16 const>, 2> const& x,
                       std::array<view<bfloat16 const>, 2> const& w, slot_lists const& slots) {
  auto const stack = [&](std::size_t i) { return stack_as_matrix(transposed ? w[i].transposed() : w[i]); };
  using kernel = grouped_gemm_warpgroups<tuning::sm90a::grouped_gemm.columns, transposed, typename Queue::tensor_map,
                                         store_epilogue, 2>;
  kernel k{typename kernel::base{
      store_epilogue{y}, {x[0], x[1]}, slots, static_cast<int>(w[0].rows), stack(0).rows, stack(0).cols, {}}};
  for (std::size_t i = 0; i < 2; ++i) k.weights[i] = queue.map_tensor(stack(i).matrix, kernel::panel_rows);
  queue.launch(k, k.blocks(queue.processors()));
}

/// y_s = x_{s / slots_per_row} w_e for every slot s of expert e, 0 for a slot without an expert. w is a stack [experts,
/// depth, columns], possibly transposed; perm, [1, slots], and offsets, [1, experts + 1], are the expert order, with
/// the slots without an expert at perm's end.
template <class Queue, class T>
void grouped_gemm(Queue& queue, view<T> y, std::type_identity_t<view<T const>> x, std::type_identity_t<view<T const>> w,
                  view<Int const> perm, view<Int const> offsets, Index slots_per_row, std::span<std::byte>) {
  slot_lists const slots(perm, offsets, slots_per_row);
  if (slots.count() == 0 || y.cols == 0) return;
  auto const launch = [&](auto const& kernel) { queue.launch(kernel, kernel.blocks()); };
  if constexpr (Half<T>) {
    bool const aligned = x.count == 1 && y.count == 1 && w.rows > 0 && rows_are_aligned(x) && rows_are_aligned(y);
    constexpr int wide = tuning::sm80::gemm_columns, narrow = tuning::sm80::narrow_gemm_columns;
    bool const resident = w.rows <= resident_rows::max_depth && y.cols > resident_rows::columns;
    if (aligned && rows_are_aligned(w)) {
      if (grouped_gemm_by_warpgroups<false>(queue, store_epilogue{y}, x, {w}, slots)) return;
      if (resident) return launch(grouped_gemm_resident<T, false>(y, x, w, slots));
      if (y.cols <= narrow) return launch(grouped_gemm_tensor<T, narrow, false>{y, x, w, slots});
      return launch(grouped_gemm_tensor<T, wide, false>{y, x, w, slots});
    }
    if (aligned && rows_are_aligned(w.transposed())) {
      if (grouped_gemm_by_warpgroups<true>(queue, store_epilogue{y}, x, {w}, slots)) return;
      if (resident) return launch(grouped_gemm_resident<T, true>(y, x, w, slots));
      if (y.cols <= narrow) return launch(grouped_gemm_tensor<T, narrow, true>{y, x, w, slots});
      return launch(grouped_gemm_tensor<T, wide, true>{y, x, w, slots});
    }
    if (w.rows > 0) notify_plain_kernel("a product with experts", rows_not_aligned);
  }
  launch(grouped_gemm_plain<T>{y, x, w, slots});
}

/// See FusedExperts in contract/optional_kernels.hpp.
template <class Queue, class Tree, std::size_t n>
void grouped_gemm_map(Queue& queue, view<bfloat16> y, Tree const& tree, std::array<view<bfloat16>, n> const& products,
                      view<bfloat16 const> x, std::array<view<bfloat16 const>, n> const& w, view<Int const> perm,
                      view<Int const> offsets, Index slots_per_row, std::span<std::byte> scratch) {
  using T = bfloat16;
  slot_lists const slots(perm, offsets, slots_per_row);
  if (slots.count() == 0 || y.cols == 0) return;
  auto const all_of = [](auto const& list, auto const& f) {
    for (auto const& v : list) {
      if (!f(v)) return false;
    }
    return true;
  };
  auto const wanted = [](view<T> const& v) { return v.data != nullptr; };
  if constexpr (has_vectors<float, Tree>) {
    bool const aligned = x.count == 1 && rows_are_aligned(x) && rows_are_aligned(y) &&
                         all_of(products, [&](auto const& v) { return !wanted(v) || rows_are_aligned(v); }) &&
                         all_of(w, [](auto const& v) { return rows_are_aligned(v); });
    if (aligned && maps_in_registers<Tree>(queue, y, w[0]) && rows_are_vectors<float>(tree, y.cols)) {
      map_epilogue<n, Tree> output{y, tree, {}};
      for (std::size_t p = 0; p < n; ++p) output.product[p] = products[p];
      if (grouped_gemm_by_warpgroups<false>(queue, output, x, w, slots)) return;
    }
  }
  if (maps_in_registers<Tree>(queue, y, w[0]) && !all_of(products, wanted)) {
    notify_plain_kernel("a hidden layer of experts", rows_not_aligned);
    grouped_gemm_map_plain<T, Tree, static_cast<int>(n)> k{y, tree, {}, x, {}, slots};
    for (std::size_t p = 0; p < n; ++p) {
      k.product[p] = products[p];
      k.w[p] = w[p];
    }
    return queue.launch(k, k.blocks());
  }
  view<T const> product_views[n];
  bool y_is_free = true;
  auto* next = reinterpret_cast<T*>(scratch.data());
  for (std::size_t p = 0; p < n; ++p) {
    view<T> to = products[p];
    if (!wanted(to)) {
      to = y_is_free ? y : view<T>(next, y.rows, y.cols);
      if (!y_is_free) next += y.size();
      y_is_free = false;
    }
    grouped_gemm(queue, to, x, w[p], perm, offsets, slots_per_row, {});
    product_views[p] = to;
  }
  map<float>(queue, y, with_products(tree, product_views), false);
}

}  // namespace headmix::cuda_kernels
