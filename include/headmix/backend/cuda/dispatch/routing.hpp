#pragma once
// SPDX-License-Identifier: MIT
// Routers, choices and scatter-add: which kernel runs, with which scratch memory. Kernels are in kernel/routing,
// without a queue; all decisions of the host and launches are here, decisions first. Gathers and scatters of columns
// are trees of map.
//
// A router in 16 bits, with aligned rows of x and up to 128 columns of weights, which are padded where they are not
// aligned, is one kernel, route_tensor, on Hopper by clusters where the product is deep; route_sums reduces over its
// blocks, and scatter_slots orders the slots. Other routers take a product and softmax_top_k_kernel (Cuda::route in
// backend/cuda.hpp). Scatter-add: scatter_long_kernel if a row of the table gets many rows, otherwise scatter_kernel.

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

#include "headmix/backend/cuda/dispatch/experts.hpp"
#include "headmix/backend/cuda/dispatch/plain_notice.hpp"
#include "headmix/backend/cuda/dispatch/rows.hpp"
#include "headmix/backend/cuda/kernel/experts/sort_by_expert.hpp"
#include "headmix/backend/cuda/kernel/routing/route.hpp"
#include "headmix/backend/cuda/kernel/routing/scatter.hpp"
#include "headmix/backend/cuda/kernel/routing/top_k.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/route_problem.hpp"
#include "headmix/core/checked.hpp"
#include "headmix/core/error.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

namespace headmix::cuda_kernels {

// ---- scratch memory ----

/// The blocks of a cluster of a router of this depth, on devices with clusters.
[[nodiscard]] constexpr int route_cluster(Index depth) {
  return depth >= tuning::sm90a::route.min_depth ? tuning::sm90a::route.blocks : 1;
}
/// Scratch bytes of a router: padded weights, the partial results of the blocks, and the totals of their counts;
/// without tensor cores, log_sum, and z if its data is null, as it also is while a program is planned.
template <class T>
[[nodiscard]] std::size_t route_scratch_bytes(route_problem<T> const& r) {
  std::size_t const values = checked_bytes(checked(r.x.rows) * (r.z.data ? 1 : 1 + r.w.cols), sizeof(accumulator_t<T>));
  if constexpr (Half<T>) {
    auto const blocks = checked(route_tensor<T, 16>::blocks_of(r.x.rows)) * route_cluster(r.x.cols);
    Index const experts = r.p.cols;
    std::size_t const parts = checked_bytes((checked(3) * experts + 2) * blocks + experts + 1, sizeof(float)) +
                              checked_bytes(checked(r.w.rows) * padded_weights<T>::columns(r.w.cols), sizeof(T));
    return parts < values ? values : parts;
  } else {
    return values;
  }
}

// ---- launches ----

/// Computes everything but `chosen` on tensor cores and returns true, or does nothing and returns false.
template <class Queue, class T>
[[nodiscard]] bool route_on_tensor_cores(Queue& queue, route_problem<T> const& r, std::span<std::byte> scratch) {
  if constexpr (Half<T>) {
    Index const experts = r.p.cols, width = r.w.cols;
    if (1 > experts) return false;
    if (!rows_are_aligned(r.x) || r.x.count != 1 || width > 128) {
      notify_plain_kernel("a router", width > 128 ? "there are more than 128 experts" : rows_not_aligned);
      return false;
    }
    bool const orders = r.order.data || r.begins.data;
    view<T> const padded(reinterpret_cast<T*>(scratch.data()), r.w.rows, padded_weights<T>::columns(width));
    view<T const> w = r.w;
    if (!rows_are_aligned(w)) {
      map<float>(queue, padded, padded_weights<T>{w}, false);
      w = view<T const>(padded).middle_cols(0, width);
    }
    auto const with = [&]<int columns, int cluster>(std::integer_sequence<int, columns, cluster>) {
      using kernel = route_tensor<T, columns, cluster>;
      Index const blocks = kernel::blocks_of(r.x.rows), parts_of_experts = experts * blocks;
      auto* const p_sums =
          reinterpret_cast<float*>(scratch.data() + sizeof(T) * static_cast<std::size_t>(padded.size()));
      auto* const squares = p_sums + parts_of_experts;
      auto* const firsts = squares + blocks;
      auto* const counts = reinterpret_cast<Int*>(firsts + parts_of_experts);
      route_parts const parts{r.p_sum.data ? p_sums : nullptr, orders || r.chosen_sum.data ? counts : nullptr,
                              r.first_sum.data ? firsts : nullptr, r.squares.data ? squares : nullptr};
      queue.launch(kernel{r.z, r.p, r.index, r.log_sum, r.x, w, parts, static_cast<int>(r.before), r.s}, blocks);
      if (!parts.p_sums && !parts.counts && !parts.firsts && !parts.squares) return;
      digit_plan const plan(static_cast<Int>(experts));
      constexpr int rows_per_warp = kernel::rows / digit_pass::warps;
      digit_pass const pass = {{r.index, experts},
                               {},
                               r.order,
                               0,
                               plan.bits,
                               plan.digits,
                               blocks,
                               rows_per_warp * r.index.cols,
                               parts.counts,
                               counts + plan.digits * blocks,
                               r.begins};
      route_sums const sums{r.p_sum, r.chosen_sum, r.first_sum, r.squares, parts, pass};
      queue.launch(sums, sums.blocks());
      if (orders) queue.launch(scatter_slots{pass}, blocks);
    };
    auto const with_columns = [&]<int columns>(std::integral_constant<int, columns>) {
      if constexpr (WarpgroupQueue<Queue>) {
        constexpr int most = tuning::sm90a::route.blocks;
        if (queue.warpgroups() && route_cluster(r.x.cols) == most) {
          return with(std::integer_sequence<int, columns, most>{});
        }
      }
      with(std::integer_sequence<int, columns, 1>{});
    };
    if (width <= 16) {
      with_columns(std::integral_constant<int, 16>{});
    } else if (width <= 32) {
      with_columns(std::integral_constant<int, 32>{});
    } else if (width <= 64) {
      with_columns(std::integral_constant<int, 64>{});
    } else {
      with_columns(std::integral_constant<int, 128>{});
    }
    return true;
  } else {
    return false;
  }
}

template <class Queue, class W>
void softmax_top_k(Queue& queue, view<W> p, view<Int> index, view<W const> z) {
  team const members = team::of_lanes_for(z.cols);
  queue.launch(softmax_top_k_kernel<W>{p, index, z, members}, members.blocks(z.rows));
}

template <class Queue, class A>
void top_k(Queue& queue, view<Int> y, view<A const> a) {
  team const members = team::of_lanes_for(a.cols);
  queue.launch(top_k_kernel<accumulator_t<A>, A>{y, a, members}, members.blocks(a.rows));
}

/// y_v (+)= the sum of the rows i of a with index_i = v. Rows that exceed the workspace are processed in parts.
template <class W, class Queue, class T>
void scatter_rows(Queue& queue, view<T> y, view<T const> a, view<Int const> index, bool accumulate) {
  if (y.rows == 0 || y.cols == 0) return;
  digit_plan const plan(static_cast<Int>(y.rows));
  auto const workspace = queue.workspace();
  std::size_t const fixed = plan.bytes(0) + sizeof(Int) * static_cast<std::size_t>(y.rows + 1);
  std::size_t const each = sizeof(Int) * (plan.passes > 1 ? 2 : 1);
  if (workspace.size() < fixed + each) {
    fail("the Cuda backend's workspace has ", workspace.size(), " bytes; adding to a table of ", y.rows,
         " rows takes more than ", fixed);
  }
  Index const most = static_cast<Index>((workspace.size() - fixed) / each);
  Index first = 0;
  do {
    Index const n = (std::min)(most, a.rows - first);
    Int* const begins = reinterpret_cast<Int*>(workspace.data());
    Int* const order = begins + y.rows + 1;
    sort_slots(queue, {order, 1, n}, {begins, 1, y.rows + 1}, {index.middle_rows(first, n), y.rows},
               workspace.subspan(sizeof(Int) * static_cast<std::size_t>(y.rows + 1 + n)));
    auto const rows = a.middle_rows(first, n);
    if (n >= tuning::scatter_rows.long_list * y.rows) {
      using kernel = scatter_long_kernel<W, T>;
      queue.launch(kernel{y, rows, order, begins, accumulate}, kernel::blocks(y));
    } else {
      using kernel = scatter_kernel<W, T>;
      queue.launch(kernel{y, rows, order, begins, accumulate}, kernel::blocks(y));
    }
    accumulate = true;
    first += n;
  } while (first < a.rows);
}

}  // namespace headmix::cuda_kernels
