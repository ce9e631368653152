// SPDX-License-Identifier: MIT
// The dense product, in the three forms of a linear layer, beside one plain Eigen product of the same operands.
#include "../common.hpp"
#include "headmix/backend/cpu.hpp"

namespace {

using namespace bench;

enum form { forward, by_input, by_weight };  // y = x w, dx = dy w^T, dw = x^T dy

struct operands {
  view<float> y;
  view<float const> a, b;
};
operands choose(int f, Matrix<float>& x, Matrix<float>& w, Matrix<float>& y) {
  if (f == forward) return {y.get(), x.get(), w.get()};
  if (f == by_input) return {x.get(), y.get(), view<float const>(w.get()).transposed()};
  return {w.get(), view<float const>(x.get()).transposed(), y.get()};
}

void gemm(benchmark::State& state, int f) {
  Index const t = state.range(0), d = state.range(1), n = state.range(2);
  Matrix<float> x(t, d), w(d, n), y(t, n);
  auto const o = choose(f, x, w, y);
  headmix::Cpu<float> cpu;
  for (auto _ : state) {
    cpu.gemm(o.y, o.a, o.b, false);
    benchmark::ClobberMemory();
  }
  count_flops(state, 2.0 * static_cast<double>(t * d * n));
}

void eigen(benchmark::State& state, int f) {
  Index const t = state.range(0), d = state.range(1), n = state.range(2);
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  matrix x = matrix::Random(t, d), w = matrix::Random(d, n), y = matrix::Random(t, n);
  for (auto _ : state) {
    if (f == forward) {
      y.noalias() = x * w;
    } else if (f == by_input) {
      x.noalias() = y * w.transpose();
    } else {
      w.noalias() = x.transpose() * y;
    }
    benchmark::ClobberMemory();
  }
  count_flops(state, 2.0 * static_cast<double>(t * d * n));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"T", "D", "N"})->Args({768, 128, 128})->Args({768, 128, 512})->Args({1024, 512, 512});
}
BENCHMARK_CAPTURE(gemm, forward / cpu / float, forward)->Apply(shapes);
BENCHMARK_CAPTURE(eigen, forward / eigen / float, forward)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, by_input / cpu / float, by_input)->Apply(shapes);
BENCHMARK_CAPTURE(eigen, by_input / eigen / float, by_input)->Apply(shapes);
BENCHMARK_CAPTURE(gemm, by_weight / cpu / float, by_weight)->Apply(shapes);
BENCHMARK_CAPTURE(eigen, by_weight / eigen / float, by_weight)->Apply(shapes);

}  // namespace
