// SPDX-License-Identifier: MIT
// The dense baseline: N heads of width D / N for B sequences of T tokens of width D. multi_head_causal is compared with
// a layer without a mask.
#include "headmix/layer/multi_head.hpp"

#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

template <class Mask>
using Layer = headmix::MultiHead<dynamic, dynamic, dynamic, Mask>;

template <class Mask, class Backend>
struct MultiHead : Module<Layer<Mask>, Backend> {
  using L = Layer<Mask>;
  MultiHead(Backend backend, Index d, Index n)
      : Module<L, Backend>(1, backend, at<typename L::model_dim>(d), at<typename L::head_dim>(d / n),
                           at<typename L::heads>(n), at<typename L::kv_heads>(n)) {}
};

template <class Mask>
void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  MultiHead<Mask, Cpu<float>> ours(Cpu<float>(pool(threads)), 48, 3);
  MultiHead<Mask, headmix::Reference<float>> plain({}, 48, 3);
  check_equal_modules("multi_head", ours, plain, 75, 48, {});
}

/// Multiply-adds of a token that sees this number of keys.
double macs(Index width, double keys) {
  return static_cast<double>(width) * (4 * static_cast<double>(width) + 2 * keys);
}

auto multi_head(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), d = state.range(2), n = state.range(3),
                threads = state.range(4);
    check<headmix::full>(threads);
    MultiHead<headmix::full, Cpu<float>> m(Cpu<float>(pool(threads)), d, n);
    double const tokens = static_cast<double>(b * t), keys = static_cast<double>(t);
    time_module(state, m, threads, b, t, d, backward, {}, tokens * macs(d, keys));
    if (!backward && t >= 1024) maximum(state, "peak", 0.80);
  };
}

auto multi_head_causal(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), d = state.range(2), n = state.range(3),
                threads = state.range(4);
    check<headmix::causal>(threads);
    Cpu<float> const cpu(pool(threads));
    MultiHead<headmix::causal, Cpu<float>> causal(cpu, d, n);
    MultiHead<headmix::full, Cpu<float>> full(cpu, d, n);
    double const tokens = static_cast<double>(b * t), keys = static_cast<double>(t);
    time_causal(state, causal, full, threads, b, t, d, backward, {}, tokens * macs(d, (keys + 1) / 2),
                tokens * macs(d, keys));
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"B", "T", "D", "N"};
  for (bool const backward : {false, true}) {
    add(backward ? "multi_head_backward/cpu/float" : "multi_head_forward/cpu/float", sizes,
        {{12, 64, 128, 4}, {8, 128, 512, 8}, {1, 1024, 512, 8}, {1, 2048, 1024, 16}}, {1, 2}, multi_head(backward));
    add(backward ? "multi_head_causal_backward/cpu/float" : "multi_head_causal_forward/cpu/float", sizes,
        {{1, 1024, 512, 8}}, {1, 2}, multi_head_causal(backward));
  }
  return 0;
}();

}  // namespace
