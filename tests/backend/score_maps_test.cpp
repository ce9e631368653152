// SPDX-License-Identifier: MIT
// Score maps of the CPU's attention against the reference.

#include "attention_cases.hpp"
#include "headmix/layer/scores.hpp"

namespace score_maps_test {

namespace {

using namespace headmix;
using namespace headmix::test;

template <class... M>
using scores_after = scores_of<decltype(headmix::detail::map_score<size<4>, M...>(headmix::detail::score_before{}))>;

struct learned : score_map {
  struct slope : param<size<4>> {};
  struct cap : param<size<1>> {};
  static constexpr auto f(auto s) {
    return cap{} * tanh((s - slope{} * abs(query_position{} - key_position{})) / cap{});
  }
};
/// A map with an operation that takes single numbers only.
struct softened : score_map {
  struct bend : param<size<1>> {};
  static constexpr auto f(auto s) { return softplus(s * bend{}) + number<1, 10>{} * head_index{}; }
};
using capped = scores_after<soft_cap<2>>;
using sloped = scores_after<alibi>;

/// Two heads for every key/value head in uneven sequences, and with dropout, a bias and strides.
std::vector<Case> some_cases() {
  std::vector<Case> const all = cases();
  std::vector<Case> some = {all[0], all[2], all[3], all[4], all[5], all[9], all[10], all[11]};
  some.back().queries = some.back().keys = {0, 70, 120};
  return some;
}

}  // namespace

TEST_CASE("score maps equal the reference: learned slopes and a learned cap") {
  for (Case const& c : cases()) check<causal, double, scores_after<learned>>(c, 1e-11);
}
TEST_CASE("score maps equal the reference: a soft cap") {
  for (Case const& c : some_cases()) check<sliding_window<70>, double, capped>(c, 1e-11);
}
TEST_CASE("score maps equal the reference: ALiBi") {
  for (Case const& c : some_cases()) check<full, double, sloped>(c, 1e-11);
}
TEST_CASE("score maps equal the reference: without vectors") {
  for (Case const& c : some_cases()) check<scattered, double, scores_after<softened>>(c, 1e-11);
}
TEST_CASE("score maps equal the reference in float") {
  static_assert(scores_after<learned>::map::vectorizable && !scores_after<softened>::map::vectorizable);
  for (Case const& c : some_cases()) check<causal, float, scores_after<learned, soft_cap<1>>>(c, 1e-4);
}
TEST_CASE("score maps over bfloat16 equal the reference to a rounding") {
  for (Case const& c : some_cases()) {
    check_bfloat16<causal, scores_after<learned>>(c);
    check_bfloat16<sliding_window<70>, capped>(c);
    check_bfloat16<scattered, scores_after<softened>>(c);
  }
  for (Case c : {Case{{0, 20, 70}, {0, 600, 1120}, 1, 3, 1, 4}, Case{{0, 300}, {0, 300}, 2, 4, 4, 20}}) {
    check_bfloat16<full, sloped>(c);
    c.drops = true;
    c.chosen = false;
    check_bfloat16<full, sloped>(c);
  }
}
TEST_CASE("score maps equal the reference: more keys than a tile, all heads and chosen ones") {
  Case c{{0, 20, 70}, {0, 600, 1120}, 1, 3, 1, 4};
  check<full, double, scores_after<learned>>(c, 1e-11);
  check<causal, float, sloped>(c, 1e-4);
  c.drops = true;
  c.chosen = false;
  check<causal, double, scores_after<learned>>(c, 1e-11);
}

}  // namespace score_maps_test
