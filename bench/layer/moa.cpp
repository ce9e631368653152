// SPDX-License-Identifier: MIT
// Mixture of attention heads: K of E experts of width H for B sequences of T tokens of width D. FLOP/s counts the
// router, the projections and attention over all keys.
#include "headmix/layer/moa.hpp"

#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using Layer = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, headmix::full>;

template <class Backend>
struct Moa : Module<Layer, Backend> {
  Moa(Backend backend, Index d, Index e, Index k, Index h)
      : Module<Layer, Backend>(1, backend, at<Layer::D>(d), at<Layer::E>(e), at<Layer::K>(k), at<Layer::H>(h)) {
    spread<Layer::r::W_g>(*this);
  }
};

void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  Moa<Cpu<float>> ours(Cpu<float>(pool(threads)), 48, 6, 2, 24);
  Moa<headmix::Reference<float>> plain({}, 48, 6, 2, 24);
  check_equal_modules("moa", ours, plain, 75, 48, {0.01, 0.001});
}

auto moa(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), d = state.range(2), e = state.range(3), k = state.range(4),
                h = state.range(5), threads = state.range(6);
    check(threads);
    Moa<Cpu<float>> m(Cpu<float>(pool(threads)), d, e, k, h);
    double const macs =
        static_cast<double>(b * t) * static_cast<double>(d * (2 * h + e) + 2 * k * d * h + 2 * k * t * h);
    time_module(state, m, threads, b, t, d, backward, {0.01, 0.001}, macs);
  };
}

int const registered = [] {
  for (bool const backward : {false, true}) {
    add(backward ? "moa_backward/cpu/float" : "moa_forward/cpu/float", {"B", "T", "D", "E", "K", "H"},
        {{12, 64, 128, 8, 4, 32},
         {8, 128, 512, 32, 8, 64},
         {8, 128, 512, 32, 8, 128},
         {1, 1024, 512, 32, 8, 64},
         {1, 1024, 512, 32, 8, 128},
         {1, 2048, 1024, 32, 8, 64},
         {1, 2048, 1024, 32, 8, 128}},
        {1, 2}, moa(backward));
  }
  return 0;
}();

}  // namespace
