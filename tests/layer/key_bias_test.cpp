// SPDX-License-Identifier: MIT
// The gradient of b_k: zero if it shifts all scores of a query alike, otherwise the derivative.

#include "../test_program.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

namespace key_bias_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// Scores that grow with the key's position: a vector added to all keys weighs more for later keys.
struct by_key_position : score_map {
  static constexpr auto f(auto s) { return s * (number<1>{} + key_position{}); }
};
/// A learned slope, added to the score.
struct learned_slope : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) { return s + slope<decltype(heads)>{} * key_position{}; }
};
/// A learned factor of the score.
struct learned_factor : score_map {
  template <Extent Heads>
  struct factor : bias_param<Heads> {};
  static constexpr auto f(auto s, auto heads) { return s * exp(factor<decltype(heads)>{}) - square(s); }
};

/// The gradients of all leaves against differences, with sequences of 0 to 4 rows.
template <class L>
void check_gradients(std::vector<std::string> detached = {}) {
  CAPTURE(type_name<L>());
  static constexpr Int offsets[] = {0, 4, 4, 5, 7};
  gradcheck_options options;
  options.token_sequences = ragged(offsets, 4);
  options.detached = detached;
  auto const ragged_rows = gradcheck(L::y, options);
  CAPTURE(ragged_rows.text);
  CHECK(ragged_rows.ok());
  for (Index const rows : {0, 1, 5}) {
    auto const r = gradcheck(L::y, {.detached = detached}, at<tokens>(rows));
    CAPTURE(rows);
    CAPTURE(r.text);
    CHECK(r.ok());
  }
}
/// The largest element of the gradient of b_k.
template <class L>
double largest_gradient() {
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(5));
  p.forward();
  p.backward();
  double largest = 0;
  for (double const g : p.gradients(typename L::b_k{})) largest = std::max(largest, std::abs(g));
  return largest;
}

}  // namespace

TEST_CASE("key bias: gradients of multi-head attention with score maps and normalised keys") {
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, soft_cap<1, 2>>>();
  check_gradients<MultiHead<5, 2, 4, kv_heads<1>, key_bias, alibi, soft_cap<1>>>();
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, query_bias, by_key_position>>();
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, learned_factor>>();
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, qk_norm>>();
  check_gradients<MultiHead<5, 2, 4, key_bias, cosine_scores<9>>>();
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, rope<>, soft_cap<1, 2>>>();
}
TEST_CASE("key bias: gradients of mixtures of attention heads with score maps and normalised keys") {
  using raw = SoftmaxTopK<3, 2, gating::raw>;
  check_gradients<Moa<5, 4, raw, causal, key_bias, soft_cap<1, 2>>>();
  check_gradients<Moa<5, 4, raw, kv_heads<2>, key_bias, by_key_position>>();
  check_gradients<Moh<5, 4, TwoStage<1, 2, 1>, causal, key_bias, soft_cap<1, 2>>>();
  check_gradients<Moh<5, 4, TwoStage<1, 2, 1>, key_bias, cosine_scores<9>>>();
  check_gradients<Moh<5, 4, TwoStage<1, 2, 1>, causal, key_bias, qk_norm, dense_projections>>();
}
TEST_CASE("key bias: the gradient is zero to the last bit where all scores of a query are shifted alike") {
  CHECK(largest_gradient<MultiHead<5, 2, 4, causal, key_bias>>() == 0);
  CHECK(largest_gradient<MultiHead<5, 2, 4, causal, key_bias, alibi>>() == 0);
  CHECK(largest_gradient<MultiHead<5, 2, 4, causal, key_bias, alibi, learned_slope>>() == 0);
  CHECK(largest_gradient<Moh<5, 4, TwoStage<1, 2, 1>, key_bias, alibi>>() == 0);
  check_gradients<MultiHead<5, 2, 4, causal, key_bias, query_bias, alibi, learned_slope>>({"detach(b_k)"});
}
TEST_CASE("key bias: the gradient with a soft cap is that of the plain loops") {
  using L = MultiHead<4, 1, 3, causal, key_bias, soft_cap<1, 2>>;
  constexpr Index n = 6, d = 3;
  constexpr double cap = 0.5;
  TestProgram<roots<type_of<decltype(L::y)>>> p(at<tokens>(n));
  p.forward();
  p.backward();
  auto const dy = p.dy;
  auto const times = [&](auto weights, Index t, Index c) {
    double sum = 0;
    for (Index i = 0; i < 4; ++i) sum += p.in(L::x{})(t, i) * p.in(weights)(i, c);
    return sum;
  };
  double expected[d] = {};
  for (Index t = 0; t < n; ++t) {
    double probability[n] = {}, slope[n] = {}, by_probability[n] = {}, total = 0, mean = 0;
    for (Index s = 0; s <= t; ++s) {
      double score = 0;
      for (Index c = 0; c < d; ++c) score += times(L::W_q{}, t, c) * (times(L::W_k{}, s, c) + p.in(L::b_k{})(0, c));
      double const capped = std::tanh(score / std::sqrt(3.) / cap);
      probability[s] = std::exp(cap * capped);
      slope[s] = 1 - capped * capped;
      total += probability[s];
      for (Index c = 0; c < d; ++c)
        for (Index j = 0; j < 4; ++j) by_probability[s] += dy(t, j) * times(L::W_v{}, s, c) * p.in(L::W_o{})(c, j);
    }
    for (Index s = 0; s <= t; ++s) mean += (probability[s] /= total) * by_probability[s];
    for (Index s = 0; s <= t; ++s) {
      double const by_score = probability[s] * (by_probability[s] - mean) * slope[s];
      for (Index c = 0; c < d; ++c) expected[c] += by_score * times(L::W_q{}, t, c) / std::sqrt(3.);
    }
  }
  for (Index c = 0; c < d; ++c) {
    CHECK(std::abs(expected[c]) > 1e-3);
    CHECK(close(p.gradients(L::b_k{})[static_cast<std::size_t>(c)], expected[c]));
  }
}

}  // namespace key_bias_test
