// SPDX-License-Identifier: MIT
// MoH with layer norms of queries and keys: against all heads times weights, and gradients by differences.

#include "moh.hpp"

namespace moh_qk_norm_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moh: layer norms of queries and keys") {
  check_layer<Moh<5, 3, TwoStage<2, 2, 1>, causal, kv_heads<2>, qk_norm>>();
}
TEST_CASE("moh by queries: layer norms come after the heads are chosen, in all heads and in the active ones") {
  using L = Moh<5, 4, QueryNorm<1, 3, 2>, causal, qk_norm, rope<>>;
  TestProgram<roots<type_of<decltype(L::y)>, type_of<decltype(L::y_inference)>, type_of<decltype(L::r::n)>>, inference>
      p(ragged_seven());
  auto const y = p.forward(), z = p.program.get(L::y_inference), n = p.program.get(L::r::n);
  for (Index i = 0; i < y.size(); ++i) CHECK(close(y.data[i], z.data[i]));
  for (Index t = 0; t < 7; ++t) {
    for (Index i = 0; i < 3; ++i) {
      double sum = 0;
      for (Index c = 0; c < 4; ++c) {
        double q = 0;
        for (Index j = 0; j < 5; ++j) q += p.in(L::x{})(t, j) * p.in(L::W_q{})(j, (1 + i) * 4 + c);
        sum += q * q;
      }
      CHECK(close(n(t, i), std::sqrt(sum)));
    }
  }
}

}  // namespace moh_qk_norm_test
