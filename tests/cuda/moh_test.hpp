#pragma once
// SPDX-License-Identifier: MIT
// MoH on a device: see cuda/check_layer.hpp.

#include "cuda/check_layer.hpp"
#include "headmix/layer/moh.hpp"

namespace layers_test {

TEST_CASE("MoH whose products and attention are for tensor cores, over ragged sequences") {
  using L = Moh<64, 64, GivenTopK<4, 2>, causal>;
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<L>(ragged(offsets.data(), 3), 131);
}
TEST_CASE("MoH whose products are of all heads, and attention of the chosen ones") {
  using L = Moh<64, 64, GivenTopK<4, 2>, causal, dense_projections>;
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<L>(ragged(offsets.data(), 3), 131);
}
// The tiles of the lists take more scratch memory than the statistics of the rows.
TEST_CASE("MoH with more heads than tokens, over short sequences") {
  using L = Moh<64, 64, GivenTopK<16, 1>, causal>;
  for (Index const tokens : {1, 2, 4}) {
    for (Index const sequences : {1, 5}) {
      INFO(sequences, " sequences of ", tokens, " tokens");
      check_layer<L>(uniform(sequences, tokens), sequences * tokens);
    }
  }
}

}  // namespace layers_test
