#pragma once
// SPDX-License-Identifier: MIT
// Products with the weights of experts and a pointwise function of them: the hidden layer of a feed-forward network.
// Warpgroups compute it from accumulators in registers (map_epilogue in expert_products.hpp).

#include "headmix/backend/cuda/device.hpp"
#include "headmix/backend/cuda/kernel/experts/grouped_slots.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/contract/lowered_tree.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

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

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
