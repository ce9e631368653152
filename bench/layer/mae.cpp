// SPDX-License-Identifier: MIT
// The mixture of attentive experts, compared with dense multi-head attention of equal shape: B sequences of T tokens of
// width D, N heads of width D / N, forward and backward. The gate sees all positions. In an expert step every sequence
// draws one expert, which leaves out `dropped` heads: `bound` is the share of the remaining heads.
#include "headmix/layer/mae.hpp"

#include "headmix/layer/multi_head.hpp"
#include "layer.hpp"

namespace {

using namespace bench;
using headmix::at;
using headmix::dynamic;

using Dense = headmix::MultiHead<dynamic, dynamic, dynamic, headmix::full>;
using Mixture =
    headmix::Mae<dynamic, dynamic, dynamic, headmix::full, headmix::pool::all, headmix::left_out_heads<dynamic>>;
using Expert = Mixture::expert<headmix::choice::drawn>;

/// The sizes of a layer.
struct MaeShape {
  Index width, heads, dropped;
};

template <class Backend>
struct DenseModule : Module<Dense, Backend> {
  DenseModule(Backend backend, MaeShape const& s)
      : Module<Dense, Backend>(1, backend, at<Dense::model_dim>(s.width), at<Dense::head_dim>(s.width / s.heads),
                               at<Dense::heads>(s.heads), at<Dense::kv_heads>(s.heads)) {}
};

/// Both layers, with equal weights.
template <class Backend>
struct MaeModules {
  MaeModules(Backend backend, MaeShape const& s)
      : experts(headmix::binomial(s.heads, s.dropped)),
        kept(s.heads - s.dropped),
        mixture(1, backend, at<Mixture::model_dim>(s.width), at<Mixture::heads>(s.heads),
                at<Mixture::head_dim>(s.width / s.heads), at<Mixture::expert_heads>(kept),
                at<Mixture::experts>(experts)),
        expert(headmix::share_parameters{}, mixture, at<Mixture::model_dim>(s.width), at<Mixture::heads>(s.heads),
               at<Mixture::head_dim>(s.width / s.heads), at<Mixture::expert_heads>(kept),
               at<Mixture::experts>(experts)) {
    for (Index e = 0; e < experts; ++e) {
      for (Index j = 0; j < kept; ++j) {
        heads.push_back(static_cast<Int>(headmix::outside_of_subset(s.heads, s.dropped, e, j)));
      }
    }
    view<Int const> const table(heads.data(), experts, kept);
    mixture.program().bind(Mixture::heads_of_experts{}, table);
    expert.program().bind(Mixture::heads_of_experts{}, table);
  }
  Index experts, kept;
  std::vector<Int> heads;  ///< heads of each expert
  Module<Mixture, Backend> mixture;
  Module<Expert, Backend> expert;
};

/// Checks the layers against plain loops, at small, uneven shapes.
void check(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  for (Index const dropped : {1, 2}) {
    MaeShape const s = {85, 5, dropped};
    MaeModules<Cpu<float>> ours(Cpu<float>(pool(threads)), s);
    MaeModules<headmix::Reference<float>> plain({}, s);
    check_equal_modules("mae mixture", ours.mixture, plain.mixture, 67, s.width, {});
    ours.mixture.zero_gradients();
    plain.mixture.zero_gradients();
    check_equal_modules("mae expert", ours.expert, plain.expert, 67, s.width, {});
  }
}

auto mae(bool one_expert) {
  return [one_expert](benchmark::State& state) {
    Index const b = state.range(0), t = state.range(1), d = state.range(2), n = state.range(3),
                dropped = state.range(4), threads = state.range(5);
    check(threads);
    Cpu<float> const cpu(pool(threads));
    MaeShape const s = {d, n, dropped};
    DenseModule<Cpu<float>> dense(cpu, s);
    MaeModules<Cpu<float>> m(cpu, s);
    Matrix<float> const x(b * t, d), dy(b * t, d);
    auto const pass = [&](auto& module) {
      module.forward(x.get(), headmix::uniform(b, t));
      module.backward(dy.get());
    };
    auto const run = [&] { one_expert ? pass(m.expert) : pass(m.mixture); };
    time_calls(state, run, [&] { pass(dense); });

    double const share = one_expert ? static_cast<double>(m.kept) / static_cast<double>(n) : 1;
    if (one_expert) {
      at_most(state, "ratio", dropped == 1 ? 0.92 : 0.80);
      state.counters["bound"] = share;
    }
    count_flops(state, threads, 6 * share * static_cast<double>(b * t) * static_cast<double>(4 * d * d + 2 * t * d));
    count_tokens(state, b * t);
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"B", "T", "D", "N", "dropped"};
  add("mae/expert_step/cpu/float", sizes,
      {{8, 128, 512, 8, 1}, {8, 128, 512, 8, 2}, {8, 1024, 512, 8, 1}, {8, 1024, 512, 8, 2}}, {1, 2}, mae(true));
  add("mae/mixture/cpu/float", sizes, {{8, 128, 512, 8, 1}, {8, 1024, 512, 8, 1}}, {1, 2}, mae(false));
  return 0;
}();

}  // namespace
