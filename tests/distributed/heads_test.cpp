// SPDX-License-Identifier: MIT
// Heads and attention experts divided among ranks.
#include "check_on_ranks.hpp"

using namespace on_ranks;

TEST_CASE("multi-head attention whose heads are divided among ranks") {
  using One = MultiHead<12, 5, 4, causal, query_bias, value_bias, output_bias, rope<>>;
  using Many = MultiHead<12, 5, 4, causal, query_bias, value_bias, output_bias, rope<>, tensor_parallel>;
  for (Index const ranks_here : {1, 2, 3, 4}) {
    check<One, Many>(std::vector<Index>(static_cast<std::size_t>(ranks_here), 0 + 12 / ranks_here), 6,
                     given_rows::all_ranks);
  }
}
TEST_CASE("Moa whose experts are divided among ranks") {
  using R = SoftmaxTopK<5, 3>;
  using One = Moa<12, 4, R, causal, query_bias, output_bias, kv_heads<2>>;
  using Many = Moa<12, 4, R, causal, query_bias, output_bias, kv_heads<2>, expert_parallel>;
  for (Index const ranks_here : {1, 2, 4}) {
    check<One, Many>(std::vector<Index>(static_cast<std::size_t>(ranks_here), 12 / ranks_here), 6,
                     given_rows::all_ranks);
  }
}
/// Attention whose values are of another input than its keys.
template <class Attention>
struct ValuesApart {
  struct model_dim : size<12> {};
  struct x : input<tokens, model_dim> {};
  static constexpr auto a = use<Attention, "a">(x{}, feed<typename Attention::values>(silu(x{})));
  static constexpr auto y = a.y;
  using losses = losses_of<a>;
  using observed = observed_of<a>;
};
TEST_CASE("attention with values of a further input on several ranks") {
  check<ValuesApart<MultiHead<12, 5, 4, causal, value_dim<12>>>,
        ValuesApart<MultiHead<12, 5, 4, causal, value_dim<12>, tensor_parallel>>>({6, 6}, 6, given_rows::all_ranks);
  using R = SoftmaxTopK<5, 3>;
  check<ValuesApart<Moa<12, 4, R, causal, value_dim<12>>>,
        ValuesApart<Moa<12, 4, R, causal, value_dim<12>, expert_parallel>>>({6, 6}, 6, given_rows::all_ranks);
}
TEST_CASE("MoH whose heads are divided among ranks") {
  using R = TwoStage<2, 4, 2>;
  using One = Moh<12, 4, R, causal, kv_heads<3>, query_bias>;
  using Many = Moh<12, 4, R, causal, kv_heads<3>, query_bias, tensor_parallel>;
  for (Index const ranks_here : {1, 2, 3}) {
    check<One, Many>(std::vector<Index>(static_cast<std::size_t>(ranks_here), 12 / ranks_here), 6,
                     given_rows::all_ranks);
  }
}
TEST_CASE("MoH whose heads have keys of their own, divided among ranks") {
  using R = TwoStage<0, 5, 2>;
  check<Moh<12, 4, R, causal>, Moh<12, 4, R, causal, tensor_parallel>>({13, 0, 0, 0}, 13, given_rows::all_ranks);
  check<Moh<12, 4, R, causal>, Moh<12, 4, R, causal, tensor_parallel, dense_projections>>({13, 0, 0, 0}, 13,
                                                                                          given_rows::all_ranks);
}
TEST_CASE("MoH with weights for all heads, divided among ranks") {
  using One = Moh<12, 4, TwoStage<5, 0, 0>, causal>;
  using Many = Moh<12, 4, TwoStage<5, 0, 0>, causal, tensor_parallel>;
  check<One, Many>({6, 6}, 6, given_rows::all_ranks);
}
TEST_CASE("MAE whose heads are divided among ranks") {
  using One = Mae<12, 5, 4, causal>;
  using Many = Mae<12, 5, 4, causal, tensor_parallel>;
  check<One, Many>({7, 0, 0}, 7, given_rows::all_ranks);
  check<One, Many>({4, 4, 0, 4}, 4, given_rows::all_ranks);
}

namespace {
/// One expert of MAE for each sequence, with a static width.
template <class L>
struct BestExpert : L::template expert<choice::best> {
  using model_dim = typename L::model_dim;
};
}  // namespace

TEST_CASE("MAE with one expert for each sequence, whose heads are divided among ranks") {
  check<BestExpert<Mae<12, 5, 4, causal>>, BestExpert<Mae<12, 5, 4, causal, tensor_parallel>>>({6, 6}, 6,
                                                                                               given_rows::all_ranks);
}
