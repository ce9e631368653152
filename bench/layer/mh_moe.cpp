// SPDX-License-Identifier: MIT
// The multi-head mixture of experts, compared with the sparse mixture of equal FLOPs: tokens of width D, split into h
// sub-tokens, K of E experts of inner width F. The published sizes: two sub-tokens with 40 experts, three with 96, and
// 1 of 8 experts of inner width 2048 for whole tokens. `bound` counts products, including the router's. The last part
// of the tables shows each row's time relative to the sparse mixture.
#include "headmix/layer/mh_moe.hpp"

#include "headmix/layer/smoe.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using Router = headmix::SoftmaxTopK<dynamic, dynamic, headmix::gating::raw, headmix::loss::first_choice_balance>;
using Experts = headmix::FeedForward<dynamic>;
using Split = headmix::MhMoe<dynamic, dynamic, Router, Experts>;
using Whole = headmix::Smoe<dynamic, Router, Experts>;

struct MixtureShape {
  Index width, parts, experts, choices, hidden;

  /// Multiply-adds of a token, including head and merge layer for split tokens.
  [[nodiscard]] double macs() const {
    return static_cast<double>(width * experts + 3 * choices * width * hidden + (parts > 1 ? 2 * width * width : 0));
  }
};

template <class L, class Backend>
struct Mixture : Module<L, Backend> {
  template <class... Sizes>
  Mixture(Backend backend, MixtureShape const& s, Sizes... sizes)
      : Module<L, Backend>(1, backend, at<typename L::model_dim>(s.width), at<Router::experts>(s.experts),
                           at<Router::top_k>(s.choices), at<typename L::network::hidden_dim>(s.hidden), sizes...) {
    spread<typename L::r::W_g>(*this);
  }
};
template <class Backend>
struct SplitModule : Mixture<Split, Backend> {
  SplitModule(Backend backend, MixtureShape const& s)
      : Mixture<Split, Backend>(backend, s, at<Split::split>(s.parts)) {}
};
template <class Backend>
using WholeModule = Mixture<Whole, Backend>;

constexpr std::initializer_list<double> loss = {0.01};

/// Checks both layers against plain loops, at small, uneven shapes.
void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  MixtureShape const split = {51, 3, 7, 2, 30}, whole = {51, 1, 7, 2, 30};
  Cpu<float> const cpu(pool(threads));
  headmix::Reference<float> const reference;
  SplitModule<Cpu<float>> ours(cpu, split);
  SplitModule<headmix::Reference<float>> plain(reference, split);
  check_equal_modules("mh_moe", ours, plain, 67, split.width, loss);
  WholeModule<Cpu<float>> ours_whole(cpu, whole);
  WholeModule<headmix::Reference<float>> plain_whole(reference, whole);
  check_equal_modules("smoe", ours_whole, plain_whole, 67, whole.width, loss);
}

auto mh_moe(bool backward) {
  return [backward](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), threads = state.range(6);
    MixtureShape const s = {d, state.range(2), state.range(3), state.range(4), state.range(5)};
    MixtureShape const sparse = {d, 1, 8, 1, 2048};
    check(threads);
    Cpu<float> const cpu(pool(threads));
    SplitModule<Cpu<float>> m(cpu, s);
    WholeModule<Cpu<float>> whole(cpu, sparse);
    Matrix<float> const x(t, d), dy(t, d);
    auto const pass = [&](auto& module) {
      module.forward(x.get());
      if (backward) module.backward(dy.get(), loss);
    };
    time_calls(
        state, [&] { pass(m); }, [&] { pass(whole); });
    state.counters["bound"] = s.macs() / sparse.macs();
    count_flops(state, threads, (backward ? 6 : 2) * static_cast<double>(t) * s.macs());
    count_tokens(state, t);
  };
}

int const registered = [] {
  for (bool const backward : {false, true}) {
    add(backward ? "mh_moe_backward/cpu/float" : "mh_moe_forward/cpu/float", {"T", "D", "h", "E", "K", "F"},
        {{2048, 768, 2, 40, 2, 768}, {2048, 768, 3, 96, 3, 512}}, {1, 2}, mh_moe(backward));
  }
  return 0;
}();

}  // namespace
