// SPDX-License-Identifier: MIT
// Warpgroup kernels with arrivals of all lanes at barriers (HEADMIX_CUDA_RACECHECK), emulated: each barrier expects the
// number of its arrivals.

#include "headmix/testing/emulated_sm90.hpp"

using test_device = headmix::EmulatedSm90a;

#include "cuda/check_layer.hpp"
#include "headmix/layer/mh_moe.hpp"
#include "headmix/layer/moa.hpp"

static_assert(headmix::cuda_kernels::warp_arrivals == 32);

namespace layers_test {

template <class L>
void check(batch const& b, Index rows) {
  check_rounded_layer<L>(b, rows, outcome<L>(Reference<double>(), b, rows));
}

TEST_CASE("cuda, emulated: all lanes arrive at barriers, MoA") {
  std::vector<Int> const offsets{0, 20, 20, 50};
  check<Moa<192, 128, GivenTopK<4, 2>, causal>>(ragged(offsets.data(), 3), 50);
}
TEST_CASE("cuda, emulated: all lanes arrive at barriers, hidden layers") {
  check<MhMoe<128, 2, GivenTopK<4, 2>, FeedForward<128>>>(uniform(1, 40), 40);
}

}  // namespace layers_test
