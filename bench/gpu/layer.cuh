#pragma once
// SPDX-License-Identifier: MIT
// Layers as rows: with random parameters and inputs, call by call and as a CUDA graph.

#include "library.cuh"

namespace bench {

/// A layer over inputs of `width` columns. All parameters are random, since a router initialised to zero sends every
/// token to the same experts.
template <class Layer, Index width, class Mode = headmix::training>
struct Trial {
  Backend backend;
  headmix::Module<Layer, Backend, Mode> layer;
  Buffers<bfloat16> x, dy;
  headmix::batch batch;

  explicit Trial(headmix::segments s, Backend on = {})
      : backend(on),
        layer(headmix::uninitialized{}, backend),
        x(backend, s.rows, width),
        dy(backend, s.rows, width, 0.01F),
        batch(s) {
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
  void pass(bool both, int i) {
    forward(i);
    if (both) backward(i);
  }
};

/// Rows of a layer, forward and with backward, call by call and as a graph, which always works on the first buffers;
/// with the GFLOP of its forward pass in products and in attention. `over`: the compared layer. Rows that are prepared
/// at the same time share one module.
template <class Layer, Index width>
void add_layer(std::vector<TimedRow>& rows, std::string const& name, headmix::segments sizes, double products,
               double attention, std::string const& over = {}) {
  using trial = Trial<Layer, width>;
  auto const shared = std::make_shared<std::weak_ptr<trial>>();
  for (bool const graph : {true, false}) {
    for (bool const both : {false, true}) {
      // The backward pass counts two products for one forward product, and in attention five for two, however often a
      // kernel repeats them.
      double const gflop = both ? 3 * products + 3.5 * attention : products + attention;
      auto const prepare = [=](cudaStream_t stream) -> Work {
        std::shared_ptr<trial> t = shared->lock();
        if (!t) *shared = t = std::make_shared<trial>(sizes, Backend(Backend::queue_type(stream)));
        t->pass(both, 0);  // one-time allocations cannot be captured
        if (!graph) return [t, both](int i) { t->pass(both, i); };
        auto const captured = std::make_shared<headmix::cuda_graph>(t->backend.queue(), [&] { t->pass(both, 0); });
        return [t, captured](int) { captured->launch(); };
      };
      rows.push_back({{"layer", both ? "forward and backward" : "forward", name, over, graph}, gflop, 0, prepare});
    }
  }
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

}  // namespace bench
