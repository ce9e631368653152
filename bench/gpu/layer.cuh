#pragma once
// SPDX-License-Identifier: MIT
// Layers in the GPU programs: with random parameters and inputs, call by call and as a CUDA graph.

#include <cstring>

#include "common.cuh"

namespace bench {

/// A layer over inputs of `width` columns. All parameters are random, since a router initialised to zero sends every
/// token to the same experts.
template <class Layer, Index width>
struct Trial {
  Backend backend;
  headmix::Module<Layer, Backend> layer;
  Buffers<bfloat16> x, dy;
  headmix::batch batch;

  explicit Trial(headmix::segments s)
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

/// Rows of a layer, with the GFLOP of its forward pass in products and in attention. `over`: the compared layer.
template <class Layer, Index width>
void time_layer(std::string const& name, headmix::segments sizes, double products, double attention, Ceilings const& c,
                std::string const& over = {}) {
  // The backward pass counts two products for one forward product, and in attention five for two, however often a
  // kernel repeats them.
  double const gflop = products + attention, gflop_both = 3 * products + 3.5 * attention;
  Trial<Layer, width> s(sizes);
  cudaStream_t const stream = s.backend.queue().stream();
  auto const both = [&](int i) {
    s.forward(i);
    s.backward(i);
  };
  both(0);  // one-time allocations cannot be captured
  headmix::cuda_graph const forward(s.backend.queue(), [&] { s.forward(); });
  headmix::cuda_graph const pass(s.backend.queue(), [&] { both(0); });
  auto const time = [&](char const* which, bool graph, std::function<void(int)> const& f, int times, double all) {
    row({"layer", which, name, over, graph}, median_us(stream, f, times), all, 0, c);
  };
  time(
      "forward", false, [&](int i) { s.forward(i); }, 50, gflop);
  time("forward and backward", false, both, 30, gflop_both);
  time(
      "forward", true, [&](int) { forward.launch(); }, 50, gflop);
  time(
      "forward and backward", true, [&](int) { pass.launch(); }, 30, gflop_both);
}

/// All outputs of a pass, as bytes.
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

/// 20 passes must agree bit by bit.
template <class Layer, Index width>
bool repeats(std::string const& name, headmix::segments sizes) {
  Trial<Layer, width> s(sizes), other(sizes);
  std::vector<std::byte> const first = pass(s);
  bool same = pass(other) == first;
  for (int i = 0; same && i < 19; ++i) same = pass(s) == first;
  std::string const found = name + ": 20 passes " + (same ? "bitwise equal" : "DIFFER");
  std::printf("{\"group\": \"determinism\", \"name\": %s}\n", json_quoted(found).c_str());
  std::fflush(stdout);
  return same;
}
inline bool checks(int argc, char** argv) { return argc > 1 && std::strcmp(argv[1], "--check") == 0; }

}  // namespace bench
