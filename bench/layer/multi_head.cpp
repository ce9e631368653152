// SPDX-License-Identifier: MIT
// The dense baseline: N heads of width D / N for B sequences of T tokens of width D.
#include "headmix/layer/multi_head.hpp"

#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using Layer = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::full>;

template <class Backend>
struct MultiHead : Module<Layer, Backend> {
  MultiHead(Backend backend, Index d, Index n)
      : Module<Layer, Backend>(1, backend, at<Layer::D>(d), at<Layer::H>(d / n), at<Layer::Q>(n), at<Layer::P>(n)) {}
};

void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  MultiHead<Cpu<float>> ours(Cpu<float>(pool(threads)), 48, 3);
  MultiHead<headmix::Reference<float>> plain({}, 48, 3);
  check_equal_modules("multi_head", ours, plain, 75, 48, {});
}

auto multi_head(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), d = state.range(2), n = state.range(3),
                threads = state.range(4);
    check(threads);
    MultiHead<Cpu<float>> m(Cpu<float>(pool(threads)), d, n);
    double const macs = static_cast<double>(b * t) * static_cast<double>(4 * d * d + 2 * t * d);
    time_module(state, m, threads, b, t, d, backward, {}, macs);
  };
}

int const registered = [] {
  for (bool const backward : {false, true}) {
    add(backward ? "multi_head_backward/cpu/float" : "multi_head_forward/cpu/float", {"B", "T", "D", "N"},
        {{12, 64, 128, 4}, {8, 128, 512, 8}, {1, 1024, 512, 8}, {1, 2048, 1024, 16}}, {1, 2}, multi_head(backward));
  }
  return 0;
}();

}  // namespace
