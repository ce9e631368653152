#pragma once
// SPDX-License-Identifier: MIT
// The engine: one of its layers, and the layout of the layer's numbers in the engine's memory. A headmix::view is a
// pointer, sizes and strides.

#include <headmix/headmix.hpp>
#include <headmix/interop/host_threads.hpp>

using headmix::Index, headmix::Int, headmix::view;

constexpr Index D = 32, H = 16, E = 6, K = 2;
using Layer = headmix::Moa<D, H, headmix::SoftmaxTopK<E, K>, headmix::causal>;
using Compute = headmix::Cpu<float, headmix::host_threads>;

/// The layer's weights in the engine's checkpoint, or their gradients in a buffer of the same layout.
struct Weights {
  static constexpr Index size = D * E + D * E * H + D * 2 * H + E * D * H;
  view<float> W_g, W_q, W_k, W_v, W_o;

  explicit Weights(float* blob) {
    W_g = {blob, D, E};
    blob += W_g.size();
    W_q = {blob, E, D, H};  // the queries of all experts are one matrix, [D, E H]
    W_q.row_stride = E * H;
    W_q.stack_stride = H;
    blob += W_q.size();
    view<float> const keys_and_values(blob, D, 2 * H);
    W_k = keys_and_values.middle_cols(0, H);
    W_v = keys_and_values.middle_cols(H, H);
    blob += keys_and_values.size();
    W_o = view<float>(blob, E, D, H).transposed();  // stored as [out, in]
  }
};

/// One row per token: values of another layer, x, and room for y; or their gradients.
struct Rows {
  static constexpr Index width = 3 * D;
  view<float> others, x, y;

  Rows(float* buffer, Index tokens) {
    view<float> const all(buffer, tokens, width);
    others = all.middle_cols(0, D);
    x = all.middle_cols(D, D);
    y = all.middle_cols(2 * D, D);
  }
};
