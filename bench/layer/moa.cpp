// SPDX-License-Identifier: MIT
// Mixture of attention heads: K of E experts of width H for B sequences of T tokens of width D. FLOP/s counts the
// router, the projections and attention over the keys that a token sees. moa_causal is compared with a layer without a
// mask, moa_prepared (inference with prepared weights) with unprepared weights, and moa_stored (which stores
// probabilities for the backward pass) with a layer that recomputes them.
#include "headmix/layer/moa.hpp"

#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

template <class Mask>
using Layer = headmix::Moa<dynamic, dynamic, headmix::SoftmaxTopK<dynamic, dynamic>, Mask>;

/// The sizes of a layer.
struct MoaShape {
  Index width, experts, choices, head;

  /// Multiply-adds of a token that sees this number of keys.
  [[nodiscard]] double macs(double keys) const {
    return static_cast<double>(width * (2 * head + experts) + 2 * choices * width * head) +
           2 * keys * static_cast<double>(choices * head);
  }
};

template <class Mask, class Backend, class Mode = headmix::training>
struct Moa : Module<Layer<Mask>, Backend, Mode> {
  using L = Layer<Mask>;
  Moa(Backend backend, MoaShape const& s)
      : Module<L, Backend, Mode>(1, backend, at<typename L::model_dim>(s.width), at<typename L::experts>(s.experts),
                                 at<typename L::top_k>(s.choices), at<typename L::head_dim>(s.head)) {
    spread<typename L::r::W_g>(*this);
  }
};

constexpr std::initializer_list<double> losses = {0.01, 0.001};

template <class Mask>
void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  MoaShape const s = {48, 6, 2, 24};
  Moa<Mask, Cpu<float>> ours(Cpu<float>(pool(threads)), s);
  Moa<Mask, headmix::Reference<float>> plain({}, s);
  check_equal_modules("moa", ours, plain, 75, s.width, losses);
}

/// The goal for the share of the peak; 0 if there is none.
double peak_goal(Index length, Index head, bool backward) {
  if (length < 128) return 0;
  if (length == 128) return backward ? 0.74 : 0.83;
  if (head == 128) return backward ? 0.78 : 0.86;
  return backward ? 0.76 : 0.82;
}

auto moa(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), threads = state.range(6);
    MoaShape const s = {state.range(2), state.range(3), state.range(4), state.range(5)};
    check<headmix::full>(threads);
    Moa<headmix::full, Cpu<float>> m(Cpu<float>(pool(threads)), s);
    double const tokens = static_cast<double>(b * t), keys = static_cast<double>(t);
    time_module(state, m, threads, b, t, s.width, backward, losses, tokens * s.macs(keys));
    if (double const goal = peak_goal(t, s.head, backward); goal > 0) maximum(state, "peak", goal);
    if (t >= 1024) maximum(state, "speedup", 1.9);
    if (backward) at_most(state, "allocations", 0);
    if (backward && t == 2048 && s.head == 128) at_most(state, "MiB", 64);
  };
}

auto moa_causal(bool backward) {
  return [backward](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), threads = state.range(6);
    MoaShape const s = {state.range(2), state.range(3), state.range(4), state.range(5)};
    check<headmix::causal>(threads);
    Cpu<float> const cpu(pool(threads));
    Moa<headmix::causal, Cpu<float>> causal(cpu, s);
    Moa<headmix::full, Cpu<float>> full(cpu, s);
    double const tokens = static_cast<double>(b * t), keys = static_cast<double>(t);
    time_causal(state, causal, full, threads, b, t, s.width, backward, losses, tokens * s.macs((keys + 1) / 2),
                tokens * s.macs(keys));
  };
}

void moa_prepared(benchmark::State& state) {
  Index const b = state.range(0), t = state.range(1), threads = state.range(6);
  MoaShape const s = {state.range(2), state.range(3), state.range(4), state.range(5)};
  Cpu<float> const cpu(pool(threads));
  Moa<headmix::full, Cpu<float>, headmix::inference> prepared(cpu, s), plain(cpu, s);
  double const keys = static_cast<double>(t);
  time_prepared(state, prepared, plain, threads, b, t, s.width, static_cast<double>(b * t) * s.macs(keys));
  maximum(state, "peak", peak_goal(t, s.head, false));
}

void moa_stored(benchmark::State& state) {
  Index const b = state.range(0), t = state.range(1), threads = state.range(6);
  MoaShape const s = {state.range(2), state.range(3), state.range(4), state.range(5)};
  Cpu<float> cpu(pool(threads));
  Moa<headmix::full, Cpu<float>> computes(cpu, s);
  cpu.set_probability_budget(Index{1} << 30);
  Moa<headmix::full, Cpu<float>> stores(cpu, s);
  Matrix<float> const x(b * t, s.width), dy(b * t, s.width);
  auto const pass = [&](auto& module) {
    module.forward(x.get(), headmix::uniform(b, t));
    module.backward(dy.get(), losses);
  };
  time_calls(
      state, [&] { pass(stores); }, [&] { pass(computes); });
  if (t >= 1024 && s.head == 128) maximum(state, "peak", 0.81);
  count_flops(state, threads, 6 * static_cast<double>(b * t) * s.macs(static_cast<double>(t)));
  count_tokens(state, b * t);
}

int const registered = [] {
  std::vector<std::string> const sizes = {"B", "T", "D", "E", "K", "H"};
  for (bool const backward : {false, true}) {
    add(backward ? "moa_backward/cpu/float" : "moa_forward/cpu/float", sizes,
        {{12, 64, 128, 8, 4, 32},
         {8, 128, 512, 32, 8, 64},
         {8, 128, 512, 32, 8, 128},
         {1, 1024, 512, 32, 8, 64},
         {1, 1024, 512, 32, 8, 128},
         {1, 2048, 1024, 32, 8, 64},
         {1, 2048, 1024, 32, 8, 128}},
        {1, 2}, moa(backward));
    add(backward ? "moa_causal_backward/cpu/float" : "moa_causal_forward/cpu/float", sizes,
        {{1, 1024, 512, 32, 8, 64}, {1, 1024, 512, 32, 8, 128}}, {1, 2}, moa_causal(backward));
  }
  std::vector<std::vector<std::int64_t>> const shapes = {{8, 128, 512, 32, 8, 64},   {8, 128, 512, 32, 8, 128},
                                                         {1, 1024, 512, 32, 8, 64},  {1, 1024, 512, 32, 8, 128},
                                                         {1, 2048, 1024, 32, 8, 64}, {1, 2048, 1024, 32, 8, 128}};
  add("moa_prepared_forward/cpu/float", sizes, shapes, {1, 2}, moa_prepared);
  add("moa_stored_backward/cpu/float", sizes, shapes, {1, 2}, moa_stored);
  return 0;
}();

}  // namespace
