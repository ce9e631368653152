#pragma once
// SPDX-License-Identifier: MIT
// The expected content of the engine's buffers, computed by a Module, which owns its memory, on copies.

#include <cmath>

#include "engine.hpp"

/// f(a_i, b_i) for all elements of two views of equal extents.
template <class A, class B, class F>
void for_each_pair(view<A> a, view<B> b, F f) {
  for (Index i = 0; i < a.count * a.rows; ++i) {
    for (Index j = 0; j < a.cols; ++j) f(a.row(i)[j * a.col_stride], b.row(i)[j * b.col_stride]);
  }
}
inline void copy(view<float const> from, view<float> to) {
  for_each_pair(from, to, [](float a, float& b) { b = a; });
}
/// The relative error; NaN if any number is NaN.
inline float error(view<float const> found, view<float const> expected) {
  float difference = 0, size = 0;
  for_each_pair(found, expected, [&](float a, float b) {
    difference += std::abs(a - b);
    size += std::abs(b);
  });
  return difference / size;
}

class Check {
 public:
  explicit Check(Weights const& w) {
    for (auto const& p : module_.parameters()) copy(w.at(p.name), p.value);
  }
  /// Checks y and the gradient of x, to which that of y was added (a residual connection), for a batch.
  void batch(std::vector<Int> const& offsets, Rows const& values, Rows const& gradients) {
    Index const tokens = offsets.back();
    std::vector<float> x_numbers(static_cast<std::size_t>(tokens * D)), dy_numbers(x_numbers.size());
    view<float> const x(x_numbers.data(), tokens, D), dy(dy_numbers.data(), tokens, D);
    copy(values.x, x);
    copy(gradients.y, dy);
    y += error(values.y, module_.forward(x, headmix::ragged(offsets.data(), static_cast<Index>(offsets.size()) - 1)));
    module_.backward(dy, {0.01, 0.001});
    for_each_pair(module_.input_gradient(), dy, [](float a, float& sum) { sum += a; });
    dx += error(gradients.x, dy);
    for_each_pair(gradients.others, gradients.others, [this](float a, float) { untouched &= a == 0; });
  }
  /// Checks the gradients of the weights, summed over all batches.
  void weights(Weights const& found) {
    for (auto const& p : module_.parameters()) dw += error(found.at(p.name), p.gradient);
  }

  float y = 0, dx = 0, dw = 0;  ///< sums of relative errors
  bool untouched = true;        ///< no gradient was written between the rows of x and y

 private:
  headmix::host_threads alone_{1};
  headmix::Module<Layer, Compute> module_{/*seed*/ 1, Compute(alone_)};
};
