// SPDX-License-Identifier: MIT
// Whole layers: MoA with K of E experts and dense multi-head attention, forward and forward + backward.
#include "../common.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/tape/module.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using MoaLayer = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, headmix::full>;
using DenseLayer = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::full>;

void moa(benchmark::State& state, bool backward) {
  Index const sequences = state.range(0), t = state.range(1), d = state.range(2), e = state.range(3),
              k = state.range(4), h = state.range(5);
  headmix::Module<MoaLayer, headmix::Cpu<float>> m(1, {}, at<MoaLayer::D>(d), at<MoaLayer::H>(h), at<MoaLayer::E>(e),
                                                   at<MoaLayer::K>(k));
  Matrix<float> x(sequences * t, d);
  // A router at its start, all zeros, sends every token to the same experts.
  auto const& w = m.get<MoaLayer::r::W_g>().value;
  Matrix<float> const start(w.rows, w.cols);
  std::copy(start.values().begin(), start.values().end(), w.data);
  Matrix<float> const dy(sequences * t, d);
  for (auto _ : state) {
    m.forward(x.get(), headmix::uniform(sequences, t));
    if (backward) m.backward(dy.get(), {0.01, 0.001});
    benchmark::ClobberMemory();
  }
  double const rows = static_cast<double>(sequences * t);
  double const macs = rows * static_cast<double>(d * (2 * h + e) + 2 * k * d * h + 2 * k * t * h);
  count_flops(state, (backward ? 6 : 2) * macs);
  count_tokens(state, sequences * t);
}

void dense(benchmark::State& state, bool backward) {
  Index const sequences = state.range(0), t = state.range(1), d = state.range(2), n = state.range(3);
  headmix::Module<DenseLayer, headmix::Cpu<float>> m(1, {}, at<DenseLayer::D>(d), at<DenseLayer::H>(d / n),
                                                     at<DenseLayer::N>(n), at<DenseLayer::P>(n));
  Matrix<float> x(sequences * t, d);
  Matrix<float> const dy(sequences * t, d);
  for (auto _ : state) {
    m.forward(x.get(), headmix::uniform(sequences, t));
    if (backward) m.backward(dy.get());
    benchmark::ClobberMemory();
  }
  double const macs = static_cast<double>(sequences * t) * static_cast<double>(4 * d * d + 2 * t * d);
  count_flops(state, (backward ? 6 : 2) * macs);
  count_tokens(state, sequences * t);
}

void moa_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"B", "T", "D", "E", "K", "H"})
      ->Args({12, 64, 128, 8, 4, 32})
      ->Args({8, 128, 512, 32, 8, 64})
      ->Args({1, 1024, 512, 32, 8, 64})
      ->Unit(benchmark::kMillisecond);
}
void dense_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"B", "T", "D", "N"})
      ->Args({12, 64, 128, 4})
      ->Args({8, 128, 512, 8})
      ->Args({1, 1024, 512, 8})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(moa, forward / cpu / float, false)->Apply(moa_shapes);
BENCHMARK_CAPTURE(moa, backward / cpu / float, true)->Apply(moa_shapes);
BENCHMARK_CAPTURE(dense, forward / cpu / float, false)->Apply(dense_shapes);
BENCHMARK_CAPTURE(dense, backward / cpu / float, true)->Apply(dense_shapes);

}  // namespace
