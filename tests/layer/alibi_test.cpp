// SPDX-License-Identifier: MIT
// ALiBi: the slopes of heads and of experts.

#include <algorithm>
#include <bit>

#include "../test_program.hpp"
#include "headmix/backend/cpu.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

namespace alibi_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// Slopes of n heads as in the authors' code: a geometric sequence for a power of two, else the slopes of the next
/// lower power and every second slope of the next higher one.
std::vector<double> published(int n) {
  std::vector<double> slopes;
  if ((n & (n - 1)) == 0) {
    double const start = std::pow(2., -std::pow(2., -(std::log2(n) - 3)));
    for (int i = 0; i < n; ++i) slopes.push_back(start * std::pow(start, i));
    return slopes;
  }
  int lower = 1;
  while (2 * lower < n) lower *= 2;
  slopes = published(lower);
  auto const higher = published(2 * lower);
  for (int i = 0; i < n - lower; ++i) slopes.push_back(higher[static_cast<std::size_t>(2 * i)]);
  return slopes;
}

/// A learned slope and number for each head.
struct learned : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) {
    return s - slope<decltype(heads)>{} * abs(query_position{} - key_position{}) * head_index{};
  }
};
/// The number of the head as a score.
struct by_number : score_map {
  static constexpr auto f(auto s) { return s * (number<1>{} + head_index{}); }
};

template <Index Heads, class Map>
std::vector<double> slopes_of_layer() {
  using L = MultiHead<8, Heads, 4, Map>;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(1));
  return p.values(typename Map::template slopes<typename L::heads>{});
}

/// Experts with equal weights are grouped-query attention with as many heads, averaged.
template <Index KvHeads, class... Maps>
void check_all_experts() {
  using L = Moa<6, 4, SoftmaxTopK<3, 3, gating::renormalized>, kv_heads<KvHeads>, causal, Maps...>;
  using M = MultiHead<6, 3 * KvHeads, 4, causal, kv_heads<KvHeads>, Maps...>;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(M::y)>>, inference> q(at<tokens>(7));
  p.values(typename L::r::W_g{}).assign(18, 0.0);
  q.values(typename M::x{}) = p.values(typename L::x{});
  q.values(typename M::W_k{}) = p.values(typename L::W_k{});
  q.values(typename M::W_v{}) = p.values(typename L::W_v{});
  for (Index e = 0; e < 3; ++e) {
    for (Index head = 0; head < KvHeads; ++head) {
      for (Index c = 0; c < 4; ++c) {
        for (Index i = 0; i < 6; ++i) {
          q.in(typename M::W_q{})(i, (head * 3 + e) * 4 + c) = p.in(typename L::W_q{})[e](i, head * 4 + c);
          q.in(typename M::W_o{})((head * 3 + e) * 4 + c, i) = p.in(typename L::W_o{})[e](head * 4 + c, i);
        }
      }
    }
  }
  auto const y = p.forward(), z = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i] / 3));
}

}  // namespace

TEST_CASE("alibi: slopes are the published ones for any number of heads") {
  for (int n = 1; n <= 40; ++n) {
    CAPTURE(n);
    auto const expected = published(n);
    for (int i = 0; i < n; ++i) {
      CHECK(close(alibi::of(i, n), expected[static_cast<std::size_t>(i)]));
      CHECK(close(geometric_alibi::of(i, n), std::pow(2., -8. * (i + 1) / n)));
      if (std::has_single_bit(static_cast<unsigned>(n))) CHECK(alibi::of(i, n) == geometric_alibi::of(i, n));
    }
  }
  std::vector<double> const of_12 = slopes_of_layer<12, alibi>();
  for (int i = 0; i < 8; ++i) CHECK(of_12[static_cast<std::size_t>(i)] == std::exp2(-1 - i));
  for (int i = 0; i < 4; ++i) CHECK(of_12[static_cast<std::size_t>(8 + i)] == std::exp2(-0.5 - i));
  CHECK(close(slopes_of_layer<12, geometric_alibi>()[0], std::exp2(-8. / 12)));
}
TEST_CASE("alibi: a module with a dynamic number of heads has the slopes of that number") {
  using Static = MultiHead<8, 6, 4, causal, alibi>;
  using Dynamic = MultiHead<8, dynamic, 4, causal, alibi>;
  Module<Static, Reference<double>, inference> a(1);
  Module<Dynamic, Reference<double>, inference> b(1, {}, at<Dynamic::heads>(6));
  std::vector<double> x(40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = Random(3).normal(i);
  auto const y = a.forward({x.data(), 5, 8}), z = b.forward({x.data(), 5, 8});
  for (Index i = 0; i < y.size(); ++i) CHECK(y.data[i] == z.data[i]);
}
TEST_CASE("alibi: all experts are the heads of grouped-query attention, with their slopes") {
  check_all_experts<1, alibi>();
  check_all_experts<2, alibi>();
  check_all_experts<2, geometric_alibi, soft_cap<1>>();
  check_all_experts<1, by_number>();
  check_all_experts<3, by_number>();
}
TEST_CASE("alibi: chosen experts have slopes of their own") {
  using L = Moa<5, 3, SoftmaxTopK<6, 2>, causal, alibi>;
  constexpr Index n = 7, d = 3;
  TestProgram<roots<type_of<decltype(L::y)>>, inference> p(at<tokens>(n));
  auto const y = p.forward();
  auto const times = [&](view<double> weights, Index t, Index c) {
    double sum = 0;
    for (Index i = 0; i < 5; ++i) sum += p.in(L::x{})(t, i) * weights(i, c);
    return sum;
  };
  for (Index t = 0; t < n; ++t) {
    std::vector<std::pair<double, Index>> experts;
    for (Index e = 0; e < 6; ++e) experts.emplace_back(std::exp(times(p.in(L::r::W_g{}), t, e)), e);
    std::sort(experts.rbegin(), experts.rend());
    double expected[5] = {};
    for (std::size_t chosen = 0; chosen < 2; ++chosen) {
      auto const [weight, e] = experts[chosen];
      double o[d] = {}, total = 0;
      for (Index s = 0; s <= t; ++s) {
        double score = 0;
        for (Index c = 0; c < d; ++c) score += times(p.in(L::W_q{})[e], t, c) * times(p.in(L::W_k{}), s, c);
        double const w =
            std::exp(score / std::sqrt(3.) - published(6)[static_cast<std::size_t>(e)] * static_cast<double>(t - s));
        total += w;
        for (Index c = 0; c < d; ++c) o[c] += w * times(p.in(L::W_v{}), s, c);
      }
      for (Index j = 0; j < 5; ++j)
        for (Index c = 0; c < d; ++c)
          expected[j] += weight / (experts[0].first + experts[1].first) * o[c] / total * p.in(L::W_o{})[e](c, j);
    }
    for (Index j = 0; j < 5; ++j) CHECK(close(y(t, j), expected[j]));
  }
}
TEST_CASE("alibi: gradients of experts with score maps of their own") {
  using raw = SoftmaxTopK<3, 2, gating::raw>;
  check_gradient(Moa<5, 4, raw, causal, alibi>::y);
  check_gradient(Moa<5, 4, raw, causal, kv_heads<2>, learned, soft_cap<2>>::y);
  check_gradient(Moa<5, 4, TwoStage<1, 2, 1>, by_number, key_bias, query_bias>::y, {.detached = {"detach(b_k)"}});
}

}  // namespace alibi_test
