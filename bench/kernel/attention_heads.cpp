// SPDX-License-Identifier: MIT
// The attention kernel where every token chooses K of E heads, as in MoH, compared with all heads of all tokens.
// `gradient` is the backward pass alone.
#include <algorithm>
#include <set>
#include <span>

#include "../experts.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace {

using namespace bench;

/// K of E heads of width d for each of t tokens, or all of them side by side (k = 0).
template <class Mask>
struct Problem {
  Index t, e, k, d;
  Index rows = k > 0 ? t *k : t, width = k > 0 ? d : e *d;
  Chosen chosen{t, k > 0 ? k : 1, e};
  Matrix<float> q{rows, width}, key{t, e*d}, v{t, e*d}, o{rows, width}, lse{rows, width / d}, d_o{rows, width};
  Matrix<float> d_q{rows, width}, d_k{t, e*d}, d_v{t, e*d};

  headmix::attention_extents extents() {
    headmix::attention_extents x{headmix::uniform(1, t), headmix::uniform(1, t), k > 0 ? k : 1, e, e, d};
    if (k > 0) x.chosen = {chosen.perm.data(), chosen.offsets.data()};
    return x;
  }
  headmix::attention_scores<float> scores() const { return {1 / std::sqrt(static_cast<double>(d))}; }
  headmix::attention_forward<float> forward() {
    return {extents(), q.get(), key.get(), v.get(), o.get(), lse.get(), {}, scores()};
  }
  headmix::attention_backward<float> backward() {
    return {extents(), q.get(),   key.get(), v.get(), o.get(), d_o.get(), view<float const>(lse.get()),
            d_q.get(), d_k.get(), d_v.get(), {},      scores()};
  }
  template <class Backend>
  std::size_t scratch(Backend& backend, bool gradient) {
    return gradient ? backend.template attention_gradient_scratch<Mask>(backward())
                    : backend.attention_scratch(forward());
  }
  template <class Backend>
  void pass(Backend& backend, bool gradient, std::span<std::byte> memory) {
    if (gradient) {
      backend.template attention_gradient<Mask>(backward(), memory);
    } else {
      backend.template attention<Mask>(forward(), memory);
    }
  }
  template <class Backend>
  void run(Backend backend, bool gradient) {
    headmix::AlignedBuffer memory(scratch(backend, gradient));
    pass(backend, gradient, memory.bytes());
  }
  double flops() const {
    double const pairs = static_cast<double>(t * (k > 0 ? k : e)) * static_cast<double>(t) *
                         (std::is_same_v<Mask, headmix::causal> ? 0.5 : 1.0);
    return 4 * pairs * static_cast<double>(d);
  }
};

/// All results at a small, uneven shape.
template <class Mask>
void check_small(Index threads, Index k) {
  static std::set<std::pair<Index, bool>> checked;
  if (!checked.insert({threads, k > 0}).second) return;
  Problem<Mask> ours{300, 6, k > 0 ? Index{4} : Index{0}, 20}, plain{300, 6, k > 0 ? Index{4} : Index{0}, 20};
  for (bool const gradient : {false, true}) {
    ours.run(Cpu<float>(pool(threads)), gradient);
    plain.run(headmix::Reference<float>{}, gradient);
  }
  check_equal<float>("attention", ours.o.get(), plain.o.get(), 1e-5);
  check_equal<float>("attention d_q", ours.d_q.get(), plain.d_q.get(), 1e-5);
  check_equal<float>("attention d_k", ours.d_k.get(), plain.d_k.get(), 1e-5);
  check_equal<float>("attention d_v", ours.d_v.get(), plain.d_v.get(), 1e-5);
}

/// Checks the timed result: the last row of a head, by the formula.
template <class Mask>
void check_timed(Problem<Mask>& p) {
  headmix::attention_extents const x = p.extents();
  headmix::query_row const r = x.row(0, 1, x.list_length(0, 1) - 1);
  view<float> const q = p.q.get(), key = p.key.get(), v = p.v.get(), o = p.o.get();
  Matrix<float> expected(1, p.d);
  double total = 0;
  std::vector<double> sum(static_cast<std::size_t>(p.d));
  for (Index s = 0; s < (std::is_same_v<Mask, headmix::causal> ? r.position + 1 : p.t); ++s) {
    double score = 0;
    for (Index c = 0; c < p.d; ++c) score += double{q(r.row, r.col + c)} * double{key(s, p.d + c)};
    double const weight = std::exp(score * p.scores().scale);
    total += weight;
    for (Index c = 0; c < p.d; ++c) sum[static_cast<std::size_t>(c)] += weight * double{v(s, p.d + c)};
  }
  for (Index c = 0; c < p.d; ++c) expected.get()(0, c) = static_cast<float>(sum[static_cast<std::size_t>(c)] / total);
  check_equal<float>("attention", o.middle_rows(r.row, 1).middle_cols(r.col, p.d), expected.get(), 1e-4);
}

/// K of E heads for every token, compared with dense attention of E heads.
template <class Mask>
auto attention(bool gradient) {
  return [gradient](benchmark::State& state) {
    Index const t = state.range(0), e = state.range(1), k = state.range(2), d = state.range(3),
                threads = state.range(4);
    check_small<Mask>(threads, k);
    check_small<Mask>(threads, 0);
    Cpu<float> cpu(pool(threads));
    Problem<Mask> p{t, e, k, d}, dense{t, e, 0, d};
    for (auto* const problem : {&p, &dense}) problem->run(cpu, false);
    headmix::AlignedBuffer memory((std::max)(p.scratch(cpu, gradient), dense.scratch(cpu, gradient)));
    time_calls(
        state, [&] { p.pass(cpu, gradient, memory.bytes()); }, [&] { dense.pass(cpu, gradient, memory.bytes()); });
    check_timed(p);
    double const share = static_cast<double>(k) / static_cast<double>(e);
    at_most(state, "ratio", 1.08 * share);
    state.counters["bound"] = share;
    count_flops(state, threads, (gradient ? 2 : 1) * p.flops());
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"T", "E", "K", "d"};
  std::vector<std::vector<std::int64_t>> const shapes = {
      {2048, 16, 16, 64}, {2048, 16, 12, 64}, {2048, 16, 8, 64}, {2048, 16, 4, 64}};
  for (bool const gradient : {false, true}) {
    std::string const op = gradient ? "attention_heads_gradient_" : "attention_heads_";
    add(op + "full/cpu/float", sizes, shapes, {1, 2}, attention<headmix::full>(gradient));
    add(op + "causal/cpu/float", sizes, shapes, {1, 2}, attention<headmix::causal>(gradient));
  }
  return 0;
}();

}  // namespace
