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
using ManyHeads = Moh<64, 64, GivenTopK<16, 1>, causal>;
TEST_CASE("MoH with many heads, over one token") { check_layer<ManyHeads>(uniform(1, 1), 1); }
TEST_CASE("MoH with many heads, over short sequences") {
  std::vector<Int> const offsets{0, 3, 3, 4, 8, 9};
  check_layer<ManyHeads>(ragged(offsets.data(), 5), 9);
}
TEST_CASE("MoH with shared and chosen heads, over one token") {
  check_layer<Moh<64, 64, TwoStage<1, 3, 1>, causal>>(uniform(1, 1), 1);
}

}  // namespace layers_test
