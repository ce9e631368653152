// SPDX-License-Identifier: MIT
// A layer whose kernels are in a library.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "headmix/headmix.cuh"

using namespace headmix;

TEST_CASE("a layer runs the kernels of the library") {
  using Backend = Cuda<bfloat16, Sm90a>;
  Backend backend;
  Module<Moa<64, 64, SoftmaxTopK<8, 2>, causal>, Backend> m(1, backend);
  constexpr Index rows = 128, n = rows * 64;
  Backend::memory memory(n * sizeof(bfloat16));
  view<bfloat16> const x(memory.as<bfloat16>(), rows, 64);
  std::vector<bfloat16> numbers(n);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = bfloat16(static_cast<float>(i % 7) / 4 - 1);
  backend.upload(x.data, numbers.data(), numbers.size() * sizeof(bfloat16));
  auto const y = m.forward(x);
  m.backward(y, {0.01, 0.01});
  auto const sum_of_squares = [&](view<bfloat16 const> v) {
    std::vector<bfloat16> found(static_cast<std::size_t>(v.size()));
    backend.download(found.data(), v.data, found.size() * sizeof(bfloat16));
    double sum = 0;
    for (bfloat16 const value : found) sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
  };
  for (double const sum : {sum_of_squares(y), sum_of_squares(m.input_gradient())}) {
    CHECK(std::isfinite(sum));
    CHECK(sum > 0);
  }
}
