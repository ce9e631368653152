// SPDX-License-Identifier: MIT
// Rounding of activations [T, D] to 8 bits, and of E matrices [D, H] to ternary weights. Both read their argument twice
// and write once.
#include "../common.hpp"

namespace {

using namespace bench;

void activations(benchmark::State& state) {
  Index const t = state.range(0), d = state.range(1), threads = state.range(2);
  Matrix<float> const x(t, d);
  Matrix<float> y(t, d), expected(t, d);
  Cpu<float> cpu(pool(threads));
  auto const run = [&] { cpu.absmax_int8(y.get(), x.get()); };
  run();
  time_calls(state, run);
  headmix::Reference<float>{}.absmax_int8(expected.get(), x.get());
  check_equal<float>("absmax_int8", y.get(), expected.get(), 0);
  count_tokens(state, t);
}

void weights(benchmark::State& state) {
  Index const e = state.range(0), d = state.range(1), h = state.range(2), threads = state.range(3);
  Matrix<float> const w(e, d, h);
  Matrix<float> y(e, d, h);
  Matrix<double> wide(e, d, h), expected(e, d, h);
  Cpu<float> cpu(pool(threads));
  auto const run = [&] { cpu.absmean_ternary(y.get(), w.get()); };
  run();
  time_calls(state, run);
  for (Index i = 0; i < w.get().size(); ++i) wide.get().data[i] = static_cast<double>(w.get().data[i]);
  headmix::Reference<double>{}.absmean_ternary(expected.get(), view<double const>(wide.get()));
  Index different = 0;  // numbers may be halfway between the two means
  for (Index i = 0; i < w.get().size(); ++i)
    different += std::abs(static_cast<double>(y.get().data[i]) - expected.get().data[i]) > 1e-6;
  if (different > w.get().size() / 100'000) {
    std::fprintf(stderr, "absmean_ternary: %d weights differ\n", static_cast<int>(different));
    std::exit(1);
  }
}

int const registered = [] {
  add("absmax_int8/cpu/float", {"T", "D"}, {{4096, 512}, {8192, 1024}}, {1, 2}, activations);
  add("absmean_ternary/cpu/float", {"E", "D", "H"}, {{16, 512, 1024}, {1, 4096, 4096}}, {1, 2}, weights);
  return 0;
}();

}  // namespace
