// SPDX-License-Identifier: MIT
// A layer whose kernels are in a library.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "cuda/runtime/stub.hpp"
#include "headmix/headmix.cuh"

using namespace headmix;

TEST_CASE("a layer launches the kernels of the library") {
  using Backend = Cuda<bfloat16, Sm90a>;
  Backend backend;
  Module<Moa<64, 64, SoftmaxTopK<8, 2>, causal>, Backend> m(1, backend);
  Backend::memory memory(2 * 128 * 64 * sizeof(bfloat16));
  view<bfloat16> const x(memory.as<bfloat16>(), 128, 64);
  auto const has = [](std::string const& kernel) {
    auto const& all = stub::state().launches;
    return std::any_of(all.begin(), all.end(), [&](auto const& l) { return l.kernel.find(kernel) != std::string::npos; });
  };
  m.forward(x);
  CHECK(has("attention"));
  CHECK(has("each_row"));
  CHECK_FALSE(has("gradient"));
  m.backward(view<bfloat16 const>(memory.as<bfloat16>() + 128 * 64, 128, 64), {0.01, 0.01});
  CHECK(has("key_gradient"));
  CHECK(has("grouped_outer"));
}
