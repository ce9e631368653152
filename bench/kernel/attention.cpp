// SPDX-License-Identifier: MIT
// The attention kernel: K rows of every token on one key/value head, as in MoA. `attention_gradient` is the backward
// pass alone. `capped` scores go through a soft cap, `sloped` ones through ALiBi.
#include <set>

#include "../common.hpp"
#include "headmix/core/aligned_buffer.hpp"
#include "headmix/layer/scores.hpp"

namespace {

using namespace bench;

template <class... M>
using map_of = typename headmix::detail::lowered_scores<decltype(headmix::detail::map_score<headmix::size<1>, M...>(
    headmix::detail::score_before{}))>::map;
using capped = map_of<headmix::soft_cap<30>>;
using sloped = map_of<headmix::alibi>;

/// K query rows for each of the last `queries` of t tokens; every token is a key.
template <class Mask, class Map>
struct Problem {
  Index t, queries, d, k;
  Matrix<float> q{queries * k, d}, key{t, d}, v{t, d}, o{queries * k, d}, lse{queries * k, 1}, d_o{queries * k, d};
  Matrix<float> d_q{queries * k, d}, d_k{t, d}, d_v{t, d};

  headmix::attention_extents extents() const {
    return {headmix::uniform(1, queries), headmix::uniform(1, t), k, 1, 1, d};
  }
  headmix::attention_scores<float, Map> scores() const {
    static constexpr float slope = 0.01f;
    headmix::attention_scores<float, Map> s;
    s.scale = 1 / std::sqrt(static_cast<double>(d));
    if constexpr (Map::operands == 1) s.operands = decltype(s.operands)(view<float const>(&slope, 1, 1));
    return s;
  }
  headmix::attention_forward<float, Map> forward() {
    return {extents(), q.get(), key.get(), v.get(), o.get(), lse.get(), {}, scores()};
  }
  headmix::attention_backward<float, Map> backward() {
    return {extents(), q.get(),   key.get(), v.get(), o.get(), d_o.get(), view<float const>(lse.get()),
            d_q.get(), d_k.get(), d_v.get(), {},      scores()};
  }
  template <class Backend>
  void run(Backend backend, bool gradient) {
    std::size_t const wanted =
        gradient ? backend.template attention_gradient_scratch<Mask>(backward()) : backend.attention_scratch(forward());
    headmix::AlignedBuffer scratch(wanted);
    if (gradient) {
      backend.template attention_gradient<Mask>(backward(), scratch.bytes());
    } else {
      backend.template attention<Mask>(forward(), scratch.bytes());
    }
  }
  /// FLOPs of the forward pass; the backward pass counts twice as many.
  double flops() const {
    double const pairs =
        static_cast<double>(t * k) * static_cast<double>(t) * (std::is_same_v<Mask, headmix::causal> ? 0.5 : 1.0);
    return 4 * pairs * static_cast<double>(d);
  }
};

/// All results at a small, uneven shape.
template <class Mask, class Map>
void check_small(Index threads) {
  static std::set<Index> checked;
  if (!checked.insert(threads).second) return;
  Problem<Mask, Map> ours{300, 300, 16, 3}, plain{300, 300, 16, 3};
  for (bool const gradient : {false, true}) {
    ours.run(Cpu<float>(pool(threads)), gradient);
    plain.run(headmix::Reference<float>{}, gradient);
  }
  check_equal<float>("attention", ours.o.get(), plain.o.get(), 1e-5);
  check_equal<float>("attention d_q", ours.d_q.get(), plain.d_q.get(), 1e-5);
  check_equal<float>("attention d_k", ours.d_k.get(), plain.d_k.get(), 1e-5);
  check_equal<float>("attention d_v", ours.d_v.get(), plain.d_v.get(), 1e-5);
}

/// Checks the timed result: the last two tokens, computed alone.
template <class Mask, class Map>
void check_timed(Problem<Mask, Map>& timed, bool gradient) {
  Problem<Mask, Map> last{timed.t, 2, timed.d, timed.k};
  Index const rows = last.queries * last.k, first = timed.queries * timed.k - rows;
  auto const copy = [&](Matrix<float>& to, Matrix<float>& from) {
    view<float> const source = from.get().middle_rows(first, rows);
    std::copy_n(source.data, source.size(), to.get().data);
  };
  copy(last.q, timed.q);
  copy(last.d_o, timed.d_o);
  last.run(headmix::Reference<float>{}, false);
  check_equal<float>("attention", timed.o.get().middle_rows(first, rows), last.o.get(), 1e-4);
  if (!gradient) return;
  last.run(headmix::Reference<float>{}, true);
  check_equal<float>("attention d_q", timed.d_q.get().middle_rows(first, rows), last.d_q.get(), 1e-4);
}

template <class Mask, class Map = headmix::no_score_map>
auto attention(bool gradient) {
  return [gradient](benchmark::State& state) {
    Index const t = state.range(0), d = state.range(1), k = state.range(2), threads = state.range(3);
    check_small<Mask, Map>(threads);
    Problem<Mask, Map> p{t, t, d, k};
    Cpu<float> cpu(pool(threads));
    p.run(cpu, false);
    headmix::AlignedBuffer scratch(gradient ? cpu.template attention_gradient_scratch<Mask>(p.backward())
                                            : cpu.attention_scratch(p.forward()));
    time_calls(state, [&] {
      if (gradient) {
        cpu.template attention_gradient<Mask>(p.backward(), scratch.bytes());
      } else {
        cpu.template attention<Mask>(p.forward(), scratch.bytes());
      }
    });
    check_timed(p, gradient);
    count_flops(state, threads, (gradient ? 2 : 1) * p.flops());
  };
}

int const registered = [] {
  std::vector<std::string> const sizes = {"T", "D", "K"};
  std::vector<std::vector<std::int64_t>> const shapes = {{64, 32, 4}, {1024, 64, 8}, {1024, 128, 8}};
  for (bool const gradient : {false, true}) {
    std::string const op = gradient ? "attention_gradient_" : "attention_";
    add(op + "full/cpu/float", sizes, shapes, {1, 2}, attention<headmix::full>(gradient));
    add(op + "causal/cpu/float", sizes, shapes, {1, 2}, attention<headmix::causal>(gradient));
    add(op + "causal_capped/cpu/float", sizes, shapes, {1, 2}, attention<headmix::causal, capped>(gradient));
    add(op + "causal_sloped/cpu/float", sizes, shapes, {1, 2}, attention<headmix::causal, sloped>(gradient));
  }
  return 0;
}();

}  // namespace
