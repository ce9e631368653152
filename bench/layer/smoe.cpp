// SPDX-License-Identifier: MIT
// The experts of a sparse mixture: T tokens of width D, each with K random experts of E, of inner width F, and random
// weights. There is no router: FLOP/s counts the experts' products. Rows with T = 256 E have equal numbers of slots per
// expert for any E: their tokens/s show whether the cost grows with K alone.
#include "headmix/layer/smoe.hpp"

#include "../experts.hpp"
#include "given_experts.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

template <class Activation>
using Layer = headmix::Smoe<dynamic, Given, headmix::FeedForward<dynamic, Activation>>;

struct SmoeShape {
  Index tokens, width, hidden, experts, choices;
};

template <class Activation, class Backend, class Mode = headmix::training>
struct Smoe : Module<Layer<Activation>, Backend, Mode> {
  using L = Layer<Activation>;
  Smoe(Backend backend, SmoeShape const& s)
      : Module<L, Backend, Mode>(1, backend, at<typename L::model_dim>(s.width),
                                 at<typename L::network::hidden_dim>(s.hidden), at<Given::experts>(s.experts),
                                 at<Given::top_k>(s.choices)),
        given(s.tokens, s.choices, s.experts),
        weights(s.tokens, s.choices),
        d_weights(s.tokens, s.choices) {
    this->program().bind(typename L::r::chosen{}, given.chosen());
    this->program().bind(typename L::r::weight{}, weights.get(), d_weights.get());
  }
  Chosen given;
  Matrix<float> weights, d_weights;
};

template <class Activation>
void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  SmoeShape const s = {150, 40, 70, 5, 2};
  Smoe<Activation, Cpu<float>> ours(Cpu<float>(pool(threads)), s);
  Smoe<Activation, headmix::Reference<float>> plain({}, s);
  check_equal_modules("smoe", ours, plain, s.tokens / 2, s.width, {});
}

template <class Activation>
auto smoe(bool backward, double peak_goal = 0) {
  return [backward, peak_goal](benchmark::State& state) {
    SmoeShape const s = {state.range(0), state.range(1), state.range(2), state.range(3), state.range(4)};
    Index const threads = state.range(5);
    check<Activation>(threads);
    Smoe<Activation, Cpu<float>> m(Cpu<float>(pool(threads)), s);
    double const matrices = Activation::gated ? 3 : 2;
    time_module(state, m, threads, 1, s.tokens, s.width, backward, {},
                matrices * static_cast<double>(s.tokens * s.choices) * static_cast<double>(s.width * s.hidden));
    if (peak_goal > 0) maximum(state, "peak", peak_goal);
  };
}

void smoe_prepared(benchmark::State& state) {
  SmoeShape const s = {state.range(0), state.range(1), state.range(2), state.range(3), state.range(4)};
  Index const threads = state.range(5);
  Cpu<float> const cpu(pool(threads));
  Smoe<headmix::activation::swiglu, Cpu<float>, headmix::inference> prepared(cpu, s), plain(cpu, s);
  time_prepared(state, prepared, plain, threads, 1, s.tokens, s.width,
                3 * static_cast<double>(s.tokens * s.choices) * static_cast<double>(s.width * s.hidden));
  maximum(state, "peak", 0.85);
}

int const registered = [] {
  std::vector<std::string> const sizes = {"T", "D", "F", "E", "K"};
  for (bool const backward : {false, true}) {
    std::string const direction = backward ? "backward" : "forward";
    add("smoe_experts_" + direction + "/swiglu/cpu/float", sizes,
        {{4096, 512, 1024, 16, 2},
         {2048, 256, 512, 8, 2},
         {4096, 256, 512, 16, 2},
         {8192, 256, 512, 32, 2},
         {32768, 256, 512, 128, 2}},
        {1, 2}, smoe<headmix::activation::swiglu>(backward));
    add("smoe_experts_" + direction + "/swiglu/cpu/float", sizes, {{1024, 512, 2048, 8, 2}}, {1, 2},
        smoe<headmix::activation::swiglu>(backward, backward ? 0.82 : 0.85));
    add("smoe_experts_" + direction + "/gelu/cpu/float", sizes, {{4096, 512, 1024, 16, 2}}, {1, 2},
        smoe<headmix::activation::gelu>(backward));
  }
  add("smoe_experts_prepared_forward/swiglu/cpu/float", sizes, {{1024, 512, 2048, 8, 2}}, {1, 2}, smoe_prepared);
  return 0;
}();

}  // namespace
