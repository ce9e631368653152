// SPDX-License-Identifier: MIT
// Layers with score maps: gradients, and one expert of MAE against a mixture with all weight on it.

#include "../test_program.hpp"
#include "headmix/layer/mae.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"

namespace score_maps_test {

using namespace headmix;
using namespace headmix::test;

namespace {

/// A learned slope for each head, which lowers scores of distant keys.
struct learned_decay : score_map {
  template <Extent Heads>
  struct slope : bias_param<Heads> {};
  template <Expr S, Extent Heads>
  static constexpr auto f(S s, Heads) {
    return s - softplus(slope<Heads>{}) * abs(query_position{} - key_position{});
  }
};

}  // namespace

TEST_CASE("score maps: gradients of every layer that takes them [slow]") {
  check_gradient(Moa<6, 4, SoftmaxTopK<5, 2, gating::raw>, causal, kv_heads<2>, soft_cap<3, 2>, learned_decay>::y);
  check_gradient(Moh<6, 4, TwoStage<1, 3, 2>, causal, alibi, soft_cap<2>, learned_decay>::y);
  check_gradient(Mae<6, 4, 3, causal, learned_decay, soft_cap<2>>::y);
  check_gradient(MultiHead<6, 4, 3, kv_heads<2>, alibi, soft_cap<2>, learned_decay>::y);
}
TEST_CASE("score maps: a high cap and slopes of zero change nothing but the last bits") {
  using Plain = MultiHead<6, 4, 3, causal>;
  using Capped = MultiHead<6, 4, 3, causal, soft_cap<1'000'000'000>>;
  TestProgram<roots<type_of<decltype(Plain::y)>>, inference> p(at<tokens>(7));
  TestProgram<roots<type_of<decltype(Capped::y)>>, inference> q(at<tokens>(7));
  q.values(Capped::x{}) = p.values(Plain::x{});
  q.values(Capped::W_q{}) = p.values(Plain::W_q{});
  q.values(Capped::W_k{}) = p.values(Plain::W_k{});
  q.values(Capped::W_v{}) = p.values(Plain::W_v{});
  q.values(Capped::W_o{}) = p.values(Plain::W_o{});
  auto const y = p.forward(), capped = q.forward();
  for (Index i = 0; i < y.size(); ++i) CHECK(close(capped.data[i], y.data[i]));
}
TEST_CASE("score maps: an expert of Mae has the slopes of the heads that it keeps") {
  using L = Mae<6, 4, 3, causal, alibi>;
  using One = L::expert<choice::given>;
  // The mixture with all weight on the given expert.
  constexpr auto weights =
      of_sequence<tokens>(upcast(one_hot(gather_choices(L::heads_of_experts{}, One::of::expert{}))) * upcast(L::scale));
  constexpr auto mixture =
      merge_rows<L::heads>(round_to_storage(split_rows<L::heads>(weights) * split_rows<L::heads>(L::o))) % L::W_o{};
  gradcheck_options options;
  options.token_sequences = uniform(2, 5);
  TestProgram<roots<type_of<decltype(One::y)>, type_of<decltype(mixture)>>> p(options, at<sequences>(2));
  p.values(One::of::expert{}) = {3, 1};
  auto const y = p.forward();
  auto const expected = p.program.get(type_of<decltype(mixture)>{});
  REQUIRE(y.rows == 10);
  for (Index i = 0; i < y.rows; ++i) {
    for (Index j = 0; j < y.cols; ++j) CHECK(close(y(i, j), expected(i, j)));
  }
  CHECK(gradcheck(One::y, options, at<sequences>(2)).ok());
}

}  // namespace score_maps_test
