// SPDX-License-Identifier: MIT
// The attention kernel forward and backward: K rows of every token on one key/value head, as in MoA.
#include "../common.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

template <class Mask>
struct problem {
  Index t, d, k;
  Matrix<float> q{t * k, d}, key{t, d}, v{t, d}, o{t * k, d}, lse{t * k, 1}, d_o{t * k, d};
  Matrix<float> d_q{t * k, d}, d_k{t, d}, d_v{t, d};

  headmix::attention_extents extents() const { return {headmix::uniform(1, t), headmix::uniform(1, t), k, 1, 1, d}; }
  headmix::attention_forward<float> forward() { return {extents(), q.get(), key.get(), v.get(), o.get(), lse.get()}; }
  headmix::attention_backward<float> backward() {
    return {extents(), q.get(),   key.get(), v.get(), o.get(), d_o.get(), view<float const>(lse.get()),
            d_q.get(), d_k.get(), d_v.get()};
  }
  /// Products of the forward pass; the backward pass counts twice as many.
  double flops() const {
    double const pairs =
        static_cast<double>(t * k) * static_cast<double>(t) * (std::is_same_v<Mask, headmix::causal> ? 0.5 : 1.0);
    return 4 * pairs * static_cast<double>(d);
  }
};

template <class Mask>
void check() {
  static bool const once = [] {
    problem<Mask> ours{70, 16, 3}, plain{70, 16, 3};
    headmix::Cpu<float> cpu;
    headmix::AlignedBuffer scratch(cpu.attention_gradient_scratch(ours.backward()) +
                                   cpu.attention_scratch(ours.forward()));
    cpu.attention<Mask>(ours.forward(), scratch.bytes());
    cpu.attention_gradient<Mask>(ours.backward(), scratch.bytes());
    headmix::Reference<float> reference;
    reference.attention<Mask>(plain.forward(), {});
    reference.attention_gradient<Mask>(plain.backward(), {});
    check_equal("attention", ours.o.values(), plain.o.values(), 1e-5);
    check_equal("attention d_q", ours.d_q.values(), plain.d_q.values(), 1e-5);
    check_equal("attention d_k", ours.d_k.values(), plain.d_k.values(), 1e-5);
    check_equal("attention d_v", ours.d_v.values(), plain.d_v.values(), 1e-5);
    return true;
  }();
  (void)once;
}

template <class Mask>
void attention(benchmark::State& state) {
  check<Mask>();
  problem<Mask> p{state.range(0), state.range(1), state.range(2)};
  headmix::Cpu<float> cpu;
  headmix::AlignedBuffer scratch(cpu.attention_scratch(p.forward()));
  for (auto _ : state) {
    cpu.template attention<Mask>(p.forward(), scratch.bytes());
    benchmark::ClobberMemory();
  }
  count_flops(state, p.flops());
}

template <class Mask>
void attention_gradient(benchmark::State& state) {
  check<Mask>();
  problem<Mask> p{state.range(0), state.range(1), state.range(2)};
  headmix::Cpu<float> cpu;
  headmix::AlignedBuffer scratch(cpu.attention_gradient_scratch(p.backward()) + cpu.attention_scratch(p.forward()));
  cpu.template attention<Mask>(p.forward(), scratch.bytes());
  for (auto _ : state) {
    cpu.template attention_gradient<Mask>(p.backward(), scratch.bytes());
    benchmark::ClobberMemory();
  }
  count_flops(state, 2 * p.flops());
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"T", "D", "K"})
      ->Args({64, 32, 4})
      ->Args({1024, 64, 8})
      ->Args({1024, 128, 8})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(attention<headmix::full>)->Name("attention/full/cpu/float")->Apply(shapes);
BENCHMARK(attention<headmix::causal>)->Name("attention/causal/cpu/float")->Apply(shapes);
BENCHMARK(attention_gradient<headmix::full>)->Name("attention_gradient/full/cpu/float")->Apply(shapes);
BENCHMARK(attention_gradient<headmix::causal>)->Name("attention_gradient/causal/cpu/float")->Apply(shapes);

}  // namespace
