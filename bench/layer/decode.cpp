// SPDX-License-Identifier: MIT
// A decoder's step: one token of one sequence after T others, through 4 layers (so that their weights and caches exceed
// the CPU's caches, as in a network), compared with dense attention with 8 heads of width 64, whose cache has as many
// keys. `bytes` is the cache of the layer relative to the dense one. A chunk is 512 tokens of prefill after T others,
// compared with a forward pass over 512 tokens, which differs only by attention. Over bfloat16 both are compared with
// float.
#include <deque>

#include "headmix/decode/decoder.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "layer.hpp"

namespace {

using namespace bench;

constexpr Index width = 512;
using Dense = headmix::MultiHead<width, 8, 64, headmix::causal, headmix::rope<>>;
using Moa = headmix::Moa<width, 64, headmix::SoftmaxTopK<32, 8>, headmix::causal, headmix::rope<>>;
using Moh = headmix::Moh<width, 64, headmix::TwoStage<2, 6, 2>, headmix::causal, headmix::rope<>>;
using Mae = headmix::Mae<width, 8, 64, headmix::causal, headmix::rope<>>;

/// Decoders that have read this number of tokens.
template <class L, class T = float>
struct Behind {
  Behind(Index context, Index threads, Index chunk, int layers) : x(chunk, width) {
    Matrix<T> const before(512, width);
    for (int l = 0; l < layers; ++l) {
      auto& d = decoders.emplace_back(headmix::cache_size{.tokens = context + chunk}, 1, Cpu<T>(pool(threads)));
      // Routers initialised to zero would send every token to the same experts.
      for (auto const& p : d.module().parameters()) {
        Matrix<T> const start(p.value.rows, p.value.cols);
        if (p.name.starts_with("W_g")) std::copy_n(start.get().data, p.value.size(), p.value.data);
      }
      for (Index t = 0; t < context; t += 512) {
        d.prefill(view<T const>(before.get()).middle_rows(0, (std::min)(Index{512}, context - t)));
      }
    }
  }
  void run() {
    for (auto& d : decoders) {
      Index const n = d.length(0);
      d.prefill(x.get());
      d.rewind(0, n);
    }
  }
  [[nodiscard]] double bytes() { return static_cast<double>(decoders[0].cache_bytes()); }
  std::deque<headmix::Decoder<L, Cpu<T>>> decoders;
  Matrix<T> x;
};

/// @param most, most_bytes  relative to dense attention; 0: no goal
template <class L>
auto step(double most, double most_bytes) {
  return [=](benchmark::State& state) {
    Index const context = state.range(0), threads = state.range(1);
    Behind<L> ours(context, threads, 1, 4);
    Behind<Dense> dense(context, threads, 1, 4);
    time_calls(
        state, [&] { ours.run(); }, [&] { dense.run(); });
    state.counters["bytes"] = ours.bytes() / dense.bytes();
    if (most > 0) at_most(state, "ratio", most);
    if (most_bytes > 0) at_most(state, "bytes", most_bytes);
    at_most(state, "allocations", 0);
    count_tokens(state, 1);
  };
}
auto chunk() {
  return [](benchmark::State& state) {
    Index const context = state.range(0), threads = state.range(1);
    Behind<Moa> ours(context, threads, 512, 1);
    Module<Moa, Cpu<float>, headmix::inference> whole(1, Cpu<float>(pool(threads)));
    time_calls(
        state, [&] { ours.run(); }, [&] { whole.forward(ours.x.get()); });
    count_tokens(state, 512);
  };
}

template <class L>
auto beside_float(Index chunk, int layers) {
  return [=](benchmark::State& state) {
    Index const context = state.range(0), threads = state.range(1);
    Behind<L, headmix::bfloat16> half(context, threads, chunk, layers);
    Behind<L> single(context, threads, chunk, layers);
    time_calls(
        state, [&] { half.run(); }, [&] { single.run(); });
    state.counters["bytes"] = half.bytes() / single.bytes();
    at_most(state, "allocations", 0);
    count_tokens(state, chunk);
  };
}

int const registered = [] {
  add("decode/step/dense/cpu/float", {"T"}, {{512}, {8192}}, {1, 2}, step<Dense>(0, 0));
  add("decode/step/moa/cpu/float", {"T"}, {{512}}, {1, 2}, step<Moa>(0, 0.15));
  add("decode/step/moa/cpu/float", {"T"}, {{8192}}, {1, 2}, step<Moa>(0.5, 0.15));
  add("decode/step/moh/cpu/float", {"T"}, {{512}}, {1, 2}, step<Moh>(0, 0));
  add("decode/step/moh/cpu/float", {"T"}, {{8192}}, {1, 2}, step<Moh>(0.65, 0));
  add("decode/step/mae/cpu/float", {"T"}, {{8192}}, {1, 2}, step<Mae>(0, 0));
  add("decode/chunk/moa/cpu/float", {"T"}, {{0}, {8192}}, {1, 2}, chunk());
  add("decode/step/dense/cpu/bfloat16", {"T"}, {{8192}}, {1, 2}, beside_float<Dense>(1, 4));
  add("decode/step/moa/cpu/bfloat16", {"T"}, {{8192}}, {1, 2}, beside_float<Moa>(1, 4));
  add("decode/chunk/moa/cpu/bfloat16", {"T"}, {{8192}}, {1, 2}, beside_float<Moa>(512, 1));
  return 0;
}();

}  // namespace
