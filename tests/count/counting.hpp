#pragma once
// SPDX-License-Identifier: MIT
// A backend that counts products, to compare with a layer's counts.

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/reference.hpp"
#include "headmix/count/count.hpp"
#include "headmix/layer/options.hpp"
#include "headmix/program/module.hpp"

namespace headmix::test {

/// Sums the multiply-accumulates of the kernels that it runs, from their operands.
struct Counting : Reference<double> {
  Index* total;
  explicit Counting(Index& sum) : total(&sum) {}

  template <class T, class A, class B>
  void gemm(view<T> y, view<A const> a, view<B const> b, bool accumulate) const {
    *total += y.size() * a.cols;
    Reference::gemm(y, a, b, accumulate);
  }
  template <class T>
  void grouped_gemm(view<T> y, view<T const> x, view<T const> w, view<Int const> perm, view<Int const> offsets,
                    Index slots_per_row, std::span<std::byte> scratch) const {
    *total += Index{offsets(0, w.count)} * w.rows * w.cols;
    Reference::grouped_gemm(y, x, w, perm, offsets, slots_per_row, scratch);
  }
  template <class T>
  void grouped_sum(view<T> y, view<T const> x, view<T const> w, view<Int const> perm, view<Int const> offsets,
                   Index slots_per_row, bool accumulate, std::span<std::byte> scratch) const {
    *total += Index{offsets(0, w.count)} * w.rows * w.cols;
    Reference::grouped_sum(y, x, w, perm, offsets, slots_per_row, accumulate, scratch);
  }
  template <AttentionMask Mask, class T>
  void attention(attention_forward<T> const& p, std::span<std::byte> scratch) const {
    auto const& e = p.extents;
    for (Index b = 0; b < e.queries.count; ++b) {
      for (Index list = 0; list < e.lists(); ++list) {
        for (Index i = 0; i < e.list_length(b, list); ++i) {
          for (Index s = 0; s < e.keys.length(b); ++s) {
            if (Mask::sees(e.row(b, list, i).position, s)) *total += 2 * e.head_dim;
          }
        }
      }
    }
    Reference::attention<Mask>(p, scratch);
  }
};

/// Compares the counts with a forward pass over n sequences of `length` tokens (and, for cross-attention, `keys` keys).
template <class L, Extent... X>
void check(Index n, Index length, Index keys, size_value<X>... sizes) {
  Index macs = 0, parameters = 0;
  Module<L, Counting, inference> m(1, Counting(macs), sizes...);
  for (auto const& p : m.parameters()) parameters += p.value.size();
  if constexpr (detail::contains<leaves_of<roots<std::remove_cvref_t<decltype(L::y)>>>, rope<dynamic>::theta>) {
    static double const theta = 10;
    m.program().bind(rope<dynamic>::theta{}, {&theta, 1, 1});
  }
  Index const width = m.program().template extent<typename L::model_dim>();
  std::vector<double> const x(static_cast<std::size_t>(n * length * width), 0.5);
  if constexpr (requires { requires L::cross; }) {
    Index const context_dim = m.program().template extent<typename L::context_dim>();
    std::vector<double> const memory(static_cast<std::size_t>(n * keys * context_dim), 0.25);
    m.forward({x.data(), n * length, width}, uniform(n, length), {memory.data(), n * keys, context_dim},
              uniform(n, keys));
  } else {
    m.forward({x.data(), n * length, width}, uniform(n, length));
  }
  CHECK(count_macs<L>({.inference = true}, at<tokens>(n * length), at<context_tokens>(n * keys), at<sequences>(n),
                      sizes...) == macs);
  CHECK(count_parameters<L>(sizes...) == parameters);
}

struct even {
  static bool sees(Index, Index s) { return s % 2 == 0; }
};

}  // namespace headmix::test
