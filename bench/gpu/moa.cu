// SPDX-License-Identifier: MIT
// Whole layers: MoA and, as its yardstick, dense attention of the same activated width, both of headmix. Forward, and
// forward with backward; call by call and as a CUDA graph. --check: instead, 20 passes that must agree bit by bit.
#include <cstring>

#include "common.cuh"

using namespace bench;

namespace {
constexpr Index sequences = 8, length = 2048, tokens = sequences * length, d = 1024, h = 128, k = 8, experts = 32;

template <class Mask>
using Mixture = headmix::Moa<d, h, headmix::SoftmaxTopK<experts, k>, Mask>;
template <class Mask>
using Dense = headmix::MultiHead<d, k, h, Mask>;

/// A layer with random parameters (a router starts with zeros, which send every token to the same experts) and inputs.
template <class Layer>
struct Subject {
  Backend backend;
  headmix::Module<Layer, Backend> layer;
  Buffers<bfloat16> x, dy;
  headmix::batch batch;

  explicit Subject(headmix::segments s)
      : layer(1, backend), x(backend, s.rows, d), dy(backend, s.rows, d, 0.01F), batch(s) {
    std::uint32_t seed = 100;
    for (auto const& p : layer.parameters()) {
      backend.for_each(p.value.size(), fill<bfloat16>{p.value.data, 0.05F, seed++});
    }
  }
  view<bfloat16 const> forward(int i = 0) { return layer.forward(x(i), batch); }
  void backward(int i = 0) {
    if constexpr (Layer::losses::size == 2) {
      layer.backward(dy(i), {0.01, 0.001});
    } else {
      layer.backward(dy(i));
    }
  }
};

template <class Layer>
void time_layer(std::string const& name, double products, double attention, Ceilings const& c) {
  // Backward counts two products for one of forward, in attention five for two, however often a kernel repeats them.
  double const gflop = products + attention, gflop_both = 3 * products + 3.5 * attention;
  Subject<Layer> s(headmix::uniform(sequences, length));
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
template <class Layer>
std::vector<std::byte> pass(Subject<Layer>& s) {
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

template <class Layer>
bool repeats(std::string const& name, headmix::segments sizes) {
  Subject<Layer> s(sizes), other(sizes);
  std::vector<std::byte> const first = pass(s);
  bool same = pass(other) == first;
  for (int i = 0; same && i < 19; ++i) same = pass(s) == first;
  std::printf("determinism\t%s: 20 passes %s\t-\t-\t-\t-\n", name.c_str(), same ? "bitwise equal" : "DIFFER");
  std::fflush(stdout);
  return same;
}
}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::strcmp(argv[1], "--check") == 0) {
      static headmix::Int const offsets[] = {0, 700, 700, 1777};
      bool ok = repeats<Mixture<headmix::full>>("MoA, B=8, T=2048", headmix::uniform(sequences, length));
      ok &= repeats<Mixture<headmix::causal>>("MoA, causal, ragged", headmix::ragged(offsets, 3));
      return ok ? 0 : 1;
    }
    Ceilings const c = ceilings_of(argc, argv);
    double const n = static_cast<double>(tokens), giga = 1e-9;
    double const attention = 4 * n * k * length * h * giga;
    double const mixture = 2 * n * d * (experts + 2 * h + 2 * k * h) * giga, dense = 2 * n * d * 4 * k * h * giga;
    time_layer<Mixture<headmix::full>>("MoA 8 of 32 x 128, all keys", mixture, attention, c);
    time_layer<Mixture<headmix::causal>>("MoA 8 of 32 x 128, causal", mixture, attention / 2, c);
    time_layer<Dense<headmix::full>>("dense 8 x 128, all keys", dense, attention, c);
    time_layer<Dense<headmix::causal>>("dense 8 x 128, causal", dense, attention / 2, c);
  } catch (headmix::Error const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
