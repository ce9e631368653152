#pragma once
// SPDX-License-Identifier: MIT
// One thread per element, per few elements, or per vector of elements: fused trees, sums over consecutive rows, and
// functions of an index.

#include <cstddef>
#include <cstdint>

#include "headmix/backend/cuda/kernel/float_vector.hpp"
#include "headmix/backend/cuda/kernel/rows/collective.hpp"
#include "headmix/backend/cuda/tuning.hpp"
#include "headmix/core/scalar.hpp"
#include "headmix/core/view.hpp"

HEADMIX_QUIET_BOUNDS

namespace headmix::cuda_kernels {

/// Elements of a tree that a thread computes together; one if an element is a loop.
template <class Tree>
inline constexpr int elements_per_thread = tuning::map_elements;
template <class Tree>
requires(Tree::is_loop) inline constexpr int elements_per_thread<Tree> = 1;

/// True if a thread of a map can compute a float_vector of a tree and store it as T. Number by number, a map of 16-bit
/// elements takes up to four times the time of its memory traffic (149 us instead of 40 for a SwiGLU on an H100).
template <class W, class T, class Tree>
inline constexpr bool maps_vectors = false;
template <class W, VectorStorage T, class Tree>
inline constexpr bool maps_vectors<W, T, Tree> = has_vectors<W, Tree>;

/// The float_vector at `to` (+)= elements `col` and following of a lazy row.
template <class Device, class T, class Row>
HEADMIX_DEVICE void store_vector(Device& device, T* to, Row const& row, Index col, bool accumulate) {
  using P = float_vector;
  // All loads before the first division: the compiler cannot move them across its rare slow path.
  typename P::template packed<T> before = {};
  if (accumulate) before = P::read(device, to);
  P value = row.template loaded<P>(col).template at<P>(col);
  if (accumulate) value = value + P(before);
  value.store(device, to);
}

/// y (+)= tree, computed in W: rows first_row .. first_row + rows - 1 of all matrices of the stack.
template <class W, class T, class Tree>
struct map_kernel {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;
  static constexpr int per_thread = elements_per_thread<Tree>;
  /// Most elements of a launch: 32-bit divisions are several times as fast as 64-bit ones.
  static constexpr Index max_elements = Index{1} << 31;

  view<T> y;
  Tree tree;
  bool accumulate;
  Index first_row, rows;
  bool vectors;  ///< map_in_vectors

  [[nodiscard]] Index blocks() const {
    return blocks_for(rows * y.cols, threads * (vectors ? float_vector::width : per_thread));
  }
  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    if constexpr (maps_vectors<W, T, Tree>) {
      if (vectors) return map_vector(device);
    }
    auto const n = static_cast<std::uint32_t>(rows * y.cols), cols = static_cast<std::uint32_t>(y.cols);
    // Neighbouring threads have neighbouring elements.
    auto const first = static_cast<std::uint32_t>(device.block() * (threads * per_thread) + device.thread());
    // All loads before the first store: the compiler cannot know that they do not alias.
    W value[per_thread] = {};
    T* to[per_thread] = {};
    for (int k = 0; k < per_thread; ++k) {
      std::uint32_t const e = first + static_cast<std::uint32_t>(k * threads);
      if (e >= n) continue;
      std::uint32_t const i = e / cols, j = e - i * cols;
      Index const row = first_row + i, col = j;
      value[k] = tree.row(row).template at<W>(col);
      to[k] = y.row(row) + col * y.col_stride;
      if (accumulate) value[k] += static_cast<W>(device.load(to[k]));
    }
    for (int k = 0; k < per_thread; ++k) {
      if (to[k] != nullptr) device.store(to[k], static_cast<T>(value[k]));
    }
  }

 private:
  template <class Device>
  HEADMIX_DEVICE void map_vector(Device& device) const {
    constexpr int width = float_vector::width;
    auto const n = static_cast<std::uint32_t>(rows * y.cols / width);
    auto const of_row = static_cast<std::uint32_t>(y.cols / width);
    auto const e = static_cast<std::uint32_t>(device.block() * threads + device.thread());
    if (e >= n) return;
    std::uint32_t const i = e / of_row;
    Index const row = first_row + i, col = Index{e - i * of_row} * width;
    store_vector(device, y.row(row) + col, tree.lazy_row(row), col, accumulate);
  }
};

/// Row i: the sum of rows i n .. i n + n - 1 of a tree, in order.
template <class Tree>
struct tree_group {
  static constexpr bool is_loop = true, vectorizable = Tree::vectorizable;
  Tree tree;
  Index n;

  [[nodiscard]] bool unit_stride() const { return tree.unit_stride(); }
  [[nodiscard]] bool aligned(std::size_t bytes) const { return tree.aligned(bytes); }

  struct group {
    Tree const& tree;
    Index first, n;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      P sum(0);
      for (Index s = 0; s < n; ++s) sum = sum + tree.row(first + s).template at<P>(j);
      return sum;
    }
    template <class P>
    HEADMIX_HD group loaded(Index) const {
      return *this;
    }
  };
  HEADMIX_HD group row(Index i) const { return {tree, i * n, n}; }
  HEADMIX_HD group lazy_row(Index i) const { return row(i); }
};

/// Sums of each n rows of a tree, n > block_terms, in blocks.
template <class Tree>
struct tree_long_group {
  static constexpr bool is_loop = true;
  Tree tree;
  Index n;

  struct group {
    Tree const& tree;
    Index first, n;
    template <class P>
    HEADMIX_HD P at(Index j) const {
      double blocks = 0;
      for (Index s = 0; s < n;) {
        Index const end = n - s < block_terms ? n : s + block_terms;
        P sum(0);
        for (; s < end; ++s) sum = sum + tree.row(first + s).template at<P>(j);
        blocks += static_cast<double>(sum);
      }
      return static_cast<P>(blocks);
    }
  };
  HEADMIX_HD group row(Index i) const { return {tree, i * n, n}; }
};

/// Calls f(i) for all i < n. F is trivially copyable, and its call is marked HEADMIX_DEVICE or HEADMIX_HD.
template <class F>
struct for_each_kernel {
  static constexpr int threads = tuning::element_threads;
  static constexpr bool cooperative = false;
  static constexpr int shared_bytes = 0;

  F f;
  Index n;

  template <class Device>
  HEADMIX_DEVICE void operator()(Device& device) const {
    Index const i = device.block() * threads + device.thread();
    if (i < n) f(i);
  }
};

}  // namespace headmix::cuda_kernels

HEADMIX_END_QUIET_BOUNDS
