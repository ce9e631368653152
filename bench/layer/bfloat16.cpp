// SPDX-License-Identifier: MIT
// Layers over bfloat16 memory beside the same over float: B sequences of T tokens. `ratio` is the time by that of
// float; without instructions for bfloat16 it shall be at most 1.25, for half of the memory.
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "headmix/layer/smoe.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::bfloat16;

using Router = headmix::SoftmaxTopK<32, 8, headmix::init<headmix::fan_in_uniform>>;
using MoaExperts = headmix::Moa<1024, 128, Router>;
using Dense = headmix::MultiHead<512, 8, 64>;
using HalfOfTheHeads = headmix::Moh<512, 64, headmix::TwoStage<2, 6, 2>>;
using Experts =
    headmix::Smoe<512, headmix::SoftmaxTopK<8, 2, headmix::init<headmix::fan_in_uniform>>, headmix::FeedForward<2048>>;

/// A module with numbers for its passes.
template <class L, class T>
struct Timed {
  Module<L, Cpu<T>> module;
  Matrix<T> x, dy;

  Timed(Index threads, Index rows)
      : module(1, Cpu<T>(pool(threads))), x(rows, L::model_dim::value), dy(rows, L::model_dim::value) {}
  void pass(Index sequences, bool backward) {
    module.forward(x.get(), headmix::uniform(sequences, x.get().rows / sequences));
    double const weights[] = {0.01, 0.001};
    if (backward) module.backward(dy.get(), std::span(weights).first(L::losses::size));
  }
};

template <class L>
auto layer(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), threads = state.range(2);
    Timed<L, bfloat16> half(threads, b * t);
    Timed<L, float> single(threads, b * t);
    half.pass(b, backward);
    single.pass(b, backward);
    time_calls(
        state, [&] { half.pass(b, backward); }, [&] { single.pass(b, backward); });
    at_most(state, "ratio", 1.25);
    if (backward) at_most(state, "allocations", 0);
    count_tokens(state, b * t);
  };
}

template <class L>
void add_layer(std::string const& name, std::vector<std::vector<std::int64_t>> const& shapes) {
  for (bool const backward : {false, true}) {
    add("bfloat16_" + name + (backward ? "_backward" : "_forward") + "/cpu/bfloat16", {"B", "T"}, shapes, {1, 2},
        layer<L>(backward));
  }
}

int const registered = [] {
  add_layer<MoaExperts>("moa", {{1, 2048}});
  add_layer<Dense>("multi_head", {{8, 128}, {1, 1024}});
  add_layer<HalfOfTheHeads>("moh", {{8, 128}, {1, 1024}});
  add_layer<Experts>("smoe", {{1, 1024}});
  return 0;
}();

}  // namespace
