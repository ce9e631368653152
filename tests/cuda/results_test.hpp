#pragma once
// SPDX-License-Identifier: MIT
// Results in memory of the caller on a device: see results.hpp. A file that includes this names the device by `using
// test_device = ...;` at global scope.

#include "headmix/backend/cuda.hpp"
#include "headmix/layer/moa.hpp"
#include "headmix/program/module.hpp"
#include "results.hpp"

namespace results_test {

using namespace headmix;

template <class T>
using backend = Cuda<T, test_device>;
template <class Layer, class T>
using layer_roots = typename Module<Layer, backend<T>>::layer_roots;
using Heads = Moa<16, 8, SoftmaxTopK<5, 2>, causal>;

TEST_CASE("cuda results: a layer writes to memory of the caller, also between other numbers") {
  test::results::check<layer_roots<Heads, float>>(backend<float>{}, 9);
}
TEST_CASE("cuda results: a layer adds to memory of the caller") {
  test::results::check_sum<layer_roots<Heads, float>>(backend<float>{}, 9, 1e-5);
}
TEST_CASE("cuda results: tensor cores write to memory of the caller [slow]") {
  using Wide = Moa<64, 64, SoftmaxTopK<4, 2>, causal>;
  test::results::check<layer_roots<Wide, bfloat16>>(backend<bfloat16>{}, 70);
}

}  // namespace results_test
