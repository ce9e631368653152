#pragma once
// SPDX-License-Identifier: MIT
// How the GPU programs run layers: with random parameters and inputs, call by call and as a CUDA graph.

#include <cstring>

#include "common.cuh"

namespace bench {

/// A layer over inputs of `width` columns. A router starts with zeros, which send every token to the same experts, so
/// parameters are random.
template <class Layer, Index width>
struct Subject {
  Backend backend;
  headmix::Module<Layer, Backend> layer;
  Buffers<bfloat16> x, dy;
  headmix::batch batch;

  explicit Subject(headmix::segments s)
      : layer(1, backend), x(backend, s.rows, width), dy(backend, s.rows, width, 0.01F), batch(s) {
    std::uint32_t seed = 100;
    for (auto const& p : layer.parameters()) {
      backend.for_each(p.value.size(), fill<bfloat16>{p.value.data, 0.05F, seed++});
    }
  }
  view<bfloat16 const> forward(int i = 0) { return layer.forward(x(i), batch); }
  void backward(int i = 0) {
    if constexpr (Layer::losses::size == 2) {
      layer.backward(dy(i), {0.01, 0.001});
    } else if constexpr (Layer::losses::size == 1) {
      layer.backward(dy(i), {0.01});
    } else {
      layer.backward(dy(i));
    }
  }
};

/// Rows of a layer, whose forward pass makes so many GFLOP in products and in attention.
template <class Layer, Index width>
void time_layer(std::string const& name, headmix::segments sizes, double products, double attention,
                Ceilings const& c) {
  // Backward counts two products for one of forward, in attention five for two, however often a kernel repeats them.
  double const gflop = products + attention, gflop_both = 3 * products + 3.5 * attention;
  Subject<Layer, width> s(sizes);
  cudaStream_t const stream = s.backend.queue().stream();
  auto const both = [&](int i) {
    s.forward(i);
    s.backward(i);
  };
  row("layer", name + ", forward", median_us(stream, [&](int i) { s.forward(i); }), gflop, 0, c);
  row("layer", name + ", forward and backward", median_us(stream, both, 30), gflop_both, 0, c);
  headmix::cuda_graph const forward(s.backend.queue(), [&] { s.forward(); });
  headmix::cuda_graph const pass(s.backend.queue(), [&] { both(0); });
  row("layer", name + ", forward, graph", median_us(stream, [&](int) { forward.launch(); }), gflop, 0, c);
  row("layer", name + ", forward and backward, graph",
      median_us(
          stream, [&](int) { pass.launch(); }, 30),
      gflop_both, 0, c);
}

/// All that a pass makes, as bytes.
template <class S>
std::vector<std::byte> pass(S& s) {
  s.layer.zero_gradients();
  view<bfloat16 const> const y = s.forward();
  s.backward();
  std::vector<std::byte> bytes;
  auto const keep = [&](view<bfloat16 const> v) {
    std::size_t const before = bytes.size(), more = static_cast<std::size_t>(v.size()) * sizeof(bfloat16);
    bytes.resize(before + more);
    s.backend.download(bytes.data() + before, v.data, more);
  };
  keep(y);
  keep(s.layer.input_gradient());
  for (auto const& p : s.layer.parameters()) keep(p.gradient);
  return bytes;
}

/// 20 passes that must agree bit by bit.
template <class Layer, Index width>
bool repeats(std::string const& name, headmix::segments sizes) {
  Subject<Layer, width> s(sizes), other(sizes);
  std::vector<std::byte> const first = pass(s);
  bool same = pass(other) == first;
  for (int i = 0; same && i < 19; ++i) same = pass(s) == first;
  std::printf("determinism\t%s: 20 passes %s\t-\t-\t-\t-\n", name.c_str(), same ? "bitwise equal" : "DIFFER");
  std::fflush(stdout);
  return same;
}
inline bool checks(int argc, char** argv) { return argc > 1 && std::strcmp(argv[1], "--check") == 0; }

}  // namespace bench
