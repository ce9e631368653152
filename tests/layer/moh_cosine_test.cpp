// SPDX-License-Identifier: MIT
// MoH with cosine scores and a relative position bias: against all heads times weights, and gradients by differences.

#include "moh.hpp"

namespace moh_cosine_test {

using namespace headmix;
using namespace headmix::test;

TEST_CASE("moh: cosine scores and a bias by relative position") {
  using L = Moh<5, 3, TwoStage<1, 3, 2>, kv_heads<2>, cosine_scores<6>, relative_position_bias<2, 3, 4>>;
  gradcheck_options o;
  o.token_sequences = uniform(2, 6);
  auto const r = check_twins(L::y, twin<L>, o, [](auto&) {});
  CAPTURE(r.text);
  CHECK(r.ok());
}

}  // namespace moh_cosine_test
