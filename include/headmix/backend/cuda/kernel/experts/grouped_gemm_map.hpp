#pragma once
// SPDX-License-Identifier: MIT
// Products with the weights of experts and a pointwise function of them: the hidden layer of a feed-forward network.
// Warpgroups compute it from accumulators in registers; otherwise products are stored in memory.

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "headmix/backend/cuda/kernel/experts/grouped_gemm.hpp"
#include "headmix/backend/cuda/kernel/rows/map.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// One thread per element of y and of the products, any strides: for unaligned rows, if there is no memory for products
/// that are not wanted.
template <class T, class Tree, int n>
struct grouped_gemm_map_plain {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  view<T> y;
  Tree tree;
  view<T> product[n];
  view<T const> x, w[n];
  slot_lists slots;

  [[nodiscard]] Index blocks() const { return blocks_for(slots.count() * y.cols, threads); }

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    using wide = accumulator_t<T>;
    Index const i = device.block() * threads + device.thread(), position = i / y.cols, col = i % y.cols;
    if (position >= slots.count()) return;
    Index expert = 0;
    while (expert < slots.experts() && slots.end(expert) <= position) ++expert;
    Int const slot = slots.slot(position);
    T const* const from = x.row(slots.row_of(slot));
    wide products[n] = {};
    HEADMIX_UNROLL
    for (int p = 0; p < n; ++p) {
      wide sum = 0;
      if (expert < slots.experts()) {
        view<T const> const weight = w[p][expert];
        for (Index k = 0; k < weight.rows; ++k) {
          sum += static_cast<wide>(from[k * x.col_stride]) * static_cast<wide>(weight(k, col));
        }
      }
      T const rounded = static_cast<T>(sum);
      if (product[p].data != nullptr) device.store(&product[p](slot, col), rounded);
      products[p] = static_cast<wide>(rounded);
    }
    device.store(&y(slot, col), static_cast<T>(at_products(tree.row(slot), col, products)));
  }
};

/// True if grouped_gemm_map needs no memory for unwanted products; a function of extents alone, as is its scratch
/// memory.
template <class Tree, class Queue>
[[nodiscard]] bool maps_in_registers(Queue const& queue, view<bfloat16> const& y, view<bfloat16 const> const& w) {
  return has_vectors<float, Tree> && supports_warpgroup_gemm(queue, w) && y.cols % float_vector::width == 0;
}
/// Scratch bytes of grouped_gemm_map: for all products but one, which is stored in y.
template <class Queue, class Tree, std::size_t n>
[[nodiscard]] std::size_t grouped_gemm_map_scratch_bytes(Queue const& queue, view<bfloat16> y, Tree const&,
                                                         std::array<view<bfloat16 const>, n> const& w) {
  return maps_in_registers<Tree>(queue, y, w[0]) ? 0 : checked_bytes(y.size(), (n - 1) * sizeof(bfloat16));
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

HEADMIX_END_QUIET_BOUNDS
