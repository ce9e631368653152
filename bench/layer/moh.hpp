#pragma once
// SPDX-License-Identifier: MIT
// Mixture-of-head attention, compared with dense multi-head attention of equal shape: one sequence of T tokens of width
// D, N heads of width D / N, of which `active` per cent are active for every token, half of those shared. The last part
// of the tables shows each row's time relative to dense attention. `bound` counts products: those for all heads (keys
// and values, and with query_norm the queries) and the active heads' share of the others. Forward rows of query_norm
// are inference, the others training.
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"
#include "layer.hpp"

namespace bench {

using headmix::at;
using headmix::dynamic;
namespace estimator = headmix::estimator;

/// The sizes of one row.
struct HeadsShape {
  Index length, width, heads, head_width, shared, chosen;
};

using TwoStage = headmix::TwoStage<dynamic, dynamic, dynamic>;
template <class Estimator>
using QueryNorm = headmix::QueryNorm<dynamic, dynamic, dynamic, Estimator>;

template <class Mask, class Backend, class Mode>
struct Dense : headmix::Module<headmix::MultiHead<dynamic, dynamic, dynamic, Mask>, Backend, Mode> {
  using L = headmix::MultiHead<dynamic, dynamic, dynamic, Mask>;
  Dense(Backend backend, HeadsShape const& s)
      : headmix::Module<L, Backend, Mode>(1, backend, at<typename L::model_dim>(s.width),
                                          at<typename L::head_dim>(s.head_width), at<typename L::heads>(s.heads)) {}
};

template <class Router, class Mask, class Backend, class Mode>
struct Moh : headmix::Module<headmix::Moh<dynamic, dynamic, Router, Mask>, Backend, Mode> {
  using L = headmix::Moh<dynamic, dynamic, Router, Mask>;
  Moh(Backend backend, HeadsShape const& s)
      : headmix::Module<L, Backend, Mode>(
            1, backend, at<typename L::model_dim>(s.width), at<typename L::head_dim>(s.head_width),
            at<typename Router::shared_heads>(s.shared), at<typename Router::routed_heads>(s.heads - s.shared),
            at<typename Router::routed_top_k>(s.chosen)) {}
};

inline constexpr std::initializer_list<double> no_losses = {}, moh_losses = {0.01};

/// Checks both layers against plain loops, at a small, uneven shape.
template <class Router, class Mask, class Mode>
void check_moh(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  constexpr HeadsShape s = {301, 48, 6, 40, 2, 2};
  using Plain = headmix::Reference<float>;
  Cpu<float> const cpu(pool(threads));
  Dense<Mask, Cpu<float>, Mode> dense(cpu, s);
  Dense<Mask, Plain, Mode> plain_dense({}, s);
  Moh<Router, Mask, Cpu<float>, Mode> moh(cpu, s);
  Moh<Router, Mask, Plain, Mode> plain_moh({}, s);
  if constexpr (std::is_same_v<Mode, headmix::training>) {
    check_equal_modules("dense", dense, plain_dense, s.length, s.width, no_losses);
    check_equal_modules("moh", moh, plain_moh, s.length, s.width, moh_losses);
  } else {
    Matrix<float> const x(s.length, s.width);
    check_equal<float>("dense", dense.forward(x.get()), plain_dense.forward(x.get()), 1e-4);
    check_equal<float>("moh", moh.forward(x.get()), plain_moh.forward(x.get()), 1e-4);
  }
}

/// The goal for the time of a row relative to dense attention; 0 if there is none.
inline double moh_goal(bool reads_queries, bool backward, bool causal, Index active, double bound) {
  if (reads_queries) return active != 50 || backward ? 0 : causal ? 0.81 : 0.74;
  if (active != 50 && active != 75) return 0;
  return causal ? 1.06 * bound : active == 50 ? 0.66 : 0.85;
}

template <class Router, class Mask, class Mode>
auto moh_pass(bool backward) {
  return [backward](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), heads = state.range(2), active = state.range(3),
                threads = state.range(4), on = heads * active / 100;
    check_moh<Router, Mask, Mode>(threads);
    HeadsShape const s = {t, d, heads, d / heads, on / 2, on - on / 2};
    Cpu<float> const cpu(pool(threads));
    Dense<Mask, Cpu<float>, Mode> dense(cpu, s);
    Moh<Router, Mask, Cpu<float>, Mode> m(cpu, s);
    Matrix<float> const x(t, d), dy(t, d);
    auto const pass = [&](auto& module, std::initializer_list<double> losses) {
      module.forward(x.get());
      if constexpr (std::is_same_v<Mode, headmix::training>) {
        if (backward) module.backward(dy.get(), losses);
      }
    };
    time_calls(
        state, [&] { pass(m, moh_losses); }, [&] { pass(dense, no_losses); });

    constexpr bool causal = std::is_same_v<Mask, headmix::causal>, reads_queries = headmix::ReadsQueries<Router>;
    bool const every_head = std::is_same_v<Router, QueryNorm<estimator::all>> && backward;
    double const share = every_head ? 1 : static_cast<double>(active) / 100;
    // Multiply-adds of a token.
    double const projection = static_cast<double>(d * d), attention = static_cast<double>(t * d) * (causal ? 1 : 2),
                 router = reads_queries ? 0 : static_cast<double>(d * (heads + 2));
    double const products =
        projection * (2 + (reads_queries ? 1 : share) + share) + attention * share;  // K and V, Q, O; attention
    double const bound = products / (4 * projection + attention),
                 goal = moh_goal(reads_queries, backward, causal, active, bound);
    state.counters["bound"] = bound;
    if (goal > 0) at_most(state, "ratio", goal);
    count_flops(state, threads, (backward ? 6 : 2) * static_cast<double>(t) * (products + router));
    count_tokens(state, t);
  };
}

/// Rows of one router, with both masks, for T, D, N and `active`.
template <class Router, class Mode = headmix::training>
void add_moh(std::string const& direction, std::string const& router,
             std::vector<std::vector<std::int64_t>> const& shapes) {
  bool const backward = direction == "backward";
  auto const add_masked = [&]<class Mask>(char const* mask, Mask) {
    add("moh/" + direction + "/" + router + "/" + mask + "/cpu/float", {"T", "D", "N", "active"}, shapes, {1, 2},
        moh_pass<Router, Mask, Mode>(backward));
  };
  add_masked("full", headmix::full{});
  add_masked("causal", headmix::causal{});
}

}  // namespace bench
