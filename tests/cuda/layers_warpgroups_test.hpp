#pragma once
// SPDX-License-Identifier: MIT
// Whole layers on Hopper: which kernels are launched is up to the backend, and most have shapes for warpgroups here.

#include "cuda/check_layer.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/layer/moh.hpp"
#include "headmix/layer/multi_head.hpp"

namespace layers_test {

template <class L>
void check(batch const& b, Index rows) {
  check_rounded_layer<L>(b, rows, outcome<L>(Reference<double>(), b, rows));
}

TEST_CASE("layers by warpgroups, MoA [slow]") {
  std::vector<Int> const offsets{0, 40, 40, 70};
  check<Moa<192, 128, GivenTopK<4, 2>, causal>>(ragged(offsets.data(), 3), 70);
}
TEST_CASE("layers by warpgroups, grouped-query attention [slow]") {
  check<MultiHead<128, 4, 64, causal, kv_heads<2>>>(uniform(2, 70), 140);
}
TEST_CASE("layers by warpgroups, MoH [slow]") {
  std::vector<Int> const offsets{0, 40, 40, 70};
  check<Moh<128, 64, GivenTopK<4, 2>, causal>>(ragged(offsets.data(), 3), 70);
}

}  // namespace layers_test
