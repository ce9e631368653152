#pragma once
// SPDX-License-Identifier: MIT
// MH-MoE on a device: see cuda/check_layer.hpp.

#include "cuda/check_layer.hpp"
#include "headmix/layer/mh_moe.hpp"

namespace layers_test {

TEST_CASE("MH-MoE whose products are for tensor cores") {
  check_layer<MhMoe<128, 2, GivenTopK<4, 2>, FeedForward<64>>>(uniform(1, 70), 70);
}
using Network = FeedForward<12, weights::ternary>;
using Ternary = MhMoe<24, 3, GivenTopK<5, 2>, Network, head_bias, shared_expert<Network>, capacity<1>>;

TEST_CASE("MH-MoE with ternary weights, a shared expert and a capacity") {
  check_layer<Ternary, true>(uniform(1, 27), 27);
}
using Biased = FeedForward<12, feed_forward_bias, hidden_dropout<1, 4>>;
using BiasedLayer =
    MhMoe<24, 3, GivenTopK<5, 2>, FeedForward<12, activation::gelu_tanh, feed_forward_bias, hidden_dropout<1, 4>>,
          shared_expert<Biased>, capacity<1>>;

TEST_CASE("MH-MoE with biases, dropout of the hidden layer and gelu_tanh") {
  check_layer<BiasedLayer>(uniform(1, 27), 27);
}
TEST_CASE("MH-MoE over no token, and over one") {
  for (Index const n : {0, 1}) {
    CAPTURE(n);
    check_same(outcome<Ternary>(Cuda<double, test_device>(), uniform(1, n), n),
               outcome<Ternary>(Reference<double>(), uniform(1, n), n), 1e-10);
  }
}

}  // namespace layers_test
