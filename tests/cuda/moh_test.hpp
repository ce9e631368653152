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

}  // namespace layers_test
