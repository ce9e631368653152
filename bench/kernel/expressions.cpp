// SPDX-License-Identifier: MIT
// Operations as users write them, forward and backward through a tape: what fuses, what is a kernel of its own.
#include "../common.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/expr/expert.hpp"
#include "headmix/expr/loss.hpp"
#include "headmix/expr/norm.hpp"
#include "headmix/expr/rotary.hpp"
#include "headmix/tape/tape.hpp"

namespace {

using namespace bench;
using namespace headmix;

struct D : headmix::size<dynamic> {};
struct H : headmix::size<dynamic> {};
struct E : headmix::size<dynamic> {};
struct K : headmix::size<dynamic> {};
struct x : input<tokens, D> {};
struct gain : param<D> {};
struct bias : param<D> {};
struct W : param<E, D, H> {};
struct table : param<E, D> {};
struct index : selection<tokens, K, E> {};
struct id : selection<tokens, headmix::size<1>, E> {};

/// Forward and backward of Y over T tokens, D columns, E experts or table rows, K choices.
template <class Y>
void run(benchmark::State& state) {
  Index const t = state.range(0), d = state.range(1), e = state.range(2), k = state.range(3);
  Cpu<float> cpu;
  Tape<roots<Y>, Cpu<float>> tape(cpu);
  tape.set(D{}, d);
  tape.set(H{}, 64);
  tape.set(E{}, e);
  tape.set(K{}, k);
  tape.set(tokens{}, t);
  std::vector<AlignedBuffer> memory;
  for_each(typename decltype(tape)::leaves{}, [&]<class L>() {
    Index const n = tape.template extent<count<L>>(), r = tape.template extent<rows<L>>(),
                c = tape.template extent<cols<L>>();
    memory.emplace_back(static_cast<std::size_t>(n * r * c) * 4);
    memory.emplace_back(static_cast<std::size_t>(n * r * c) * 4);
    Random const random(static_cast<std::uint64_t>(memory.size()));
    if constexpr (Selection<L>) {
      auto* p = memory[memory.size() - 2].as<Int>();
      for (Index i = 0; i < r * c; ++i) p[i] = static_cast<Int>((i * 7 + i / c) % e);
      tape.bind(L{}, {p, n, r, c});
    } else {
      auto* p = memory[memory.size() - 2].as<float>();
      for (Index i = 0; i < n * r * c; ++i)
        p[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i)) + 0.5);
      tape.bind(L{}, {p, n, r, c}, {memory.back().as<float>(), n, r, c});
    }
  });
  AlignedBuffer workspace(tape.workspace_bytes());
  tape.bind_workspace(workspace.bytes());
  auto const y = tape.forward();
  Matrix<float> const dy(y.rows, y.cols);
  for (auto _ : state) {
    tape.forward();
    tape.backward(dy.get());
    benchmark::ClobberMemory();
  }
  count_tokens(state, t);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"T", "D", "E", "K"})->Args({768, 128, 8, 4})->Args({1024, 512, 32, 8})->Unit(benchmark::kMicrosecond);
}
template <class Y>
void add(char const* name, Y) {
  shapes(benchmark::RegisterBenchmark(name, run<Y>));
}

int const registered = [] {
  add("exp/cpu/float", exp(x{}));
  add("log/cpu/float", log(x{}));
  add("sqrt/cpu/float", sqrt(x{}));
  add("tanh/cpu/float", tanh(x{}));
  add("sigmoid/cpu/float", sigmoid(x{}));
  add("silu/cpu/float", silu(x{}));
  add("gelu/cpu/float", gelu(x{}));
  add("relu/cpu/float", relu(x{}));
  add("arithmetic/cpu/float", (x{} + gain{}) * x{} / gain{} - bias{});
  add("row_sum/cpu/float", row_sum(x{} * x{}));
  add("col_sum/cpu/float", col_sum(x{} * x{}));
  add("softmax/cpu/float", softmax(x{}));
  add("log_sum_exp/cpu/float", log_sum_exp(x{}));
  add("layer_norm/cpu/float", layer_norm(x{}, gain{}, bias{}));
  add("rms_norm/cpu/float", rms_norm(x{}, gain{}));
  add("rotary/cpu/float", rotary<headmix::size<2>>(x{}, number<10000>{}));
  add("embedding/cpu/float", gather_rows(table{}, id{}));
  add("cross_entropy/cpu/float", mean(cross_entropy(x{} % t(table{}), id{})));
  add("top_k+take/cpu/float", take(x{} % t(table{}), top_k<K>(x{} % t(table{}))));
  add("put/cpu/float", put(take(x{} % t(table{}), index{}), index{}));
  add("expert_linear/cpu/float", expert_linear(x{}, W{}, index{}));
  add("mix/cpu/float", mix(take(x{} % t(table{}), index{}), expert_linear(x{}, W{}, index{})));
  add("load_balance/cpu/float", load_balance(softmax(x{} % t(table{})), index{}));
  add("z_loss/cpu/float", z_loss(x{} % t(table{})));
  return 0;
}();

}  // namespace
