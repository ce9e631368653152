#pragma once
// SPDX-License-Identifier: MIT
// MAE on a device: see cuda/check_layer.hpp.

#include "cuda/check_layer.hpp"
#include "headmix/layer/mae.hpp"

namespace layers_test {

TEST_CASE("a mixture of attentive experts, whose gate sees a window") {
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<Mae<64, 3, 64, causal, pool::window<7>, gate_dim<16>>>(ragged(offsets.data(), 3), 131);
}
TEST_CASE("one attentive expert for each sequence") {
  using L = Mae<64, 3, 64, gate_dim<16>, output_bias>;
  std::vector<Int> const offsets{0, 40, 40, 131};
  check_layer<L::expert<choice::given>>(ragged(offsets.data(), 3), 131);
}

}  // namespace layers_test
