#pragma once
// SPDX-License-Identifier: MIT
// The engine: one of its layers, and the layout of the layer's numbers in the engine's memory. A headmix::view is a
// pointer, sizes and strides.

#include <headmix/headmix.hpp>
#include <headmix/interop/host_threads.hpp>
#include <map>
#include <string_view>

using headmix::Index, headmix::Int, headmix::view;

constexpr Index D = 32, H = 16, E = 6, K = 2;
using Layer = headmix::Moa<D, H, headmix::SoftmaxTopK<E, K>, headmix::causal>;
using Compute = headmix::Cpu<float, headmix::host_threads>;

constexpr Index weight_numbers = D * E + D * E * H + D * 2 * H + E * D * H;
/// The weights of the layer in the checkpoint of the engine by name, or their gradients in a buffer of the same layout.
using Weights = std::map<std::string_view, view<float>>;
inline Weights weights_in(float* blob) {
  view<float> const W_g(blob, D, E);
  blob += W_g.size();
  view<float> W_q(blob, E, D, H);  // the queries of all experts are one matrix, [D, E H]
  W_q.row_stride = E * H;
  W_q.stack_stride = H;
  blob += W_q.size();
  view<float> const keys_and_values(blob, D, 2 * H);
  blob += keys_and_values.size();
  view<float> const W_o = view<float>(blob, E, D, H).transposed();  // stored as [out, in]
  return {{"W_g", W_g},
          {"W_q", W_q},
          {"W_k", keys_and_values.middle_cols(0, H)},
          {"W_v", keys_and_values.middle_cols(H, H)},
          {"W_o", W_o}};
}

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
