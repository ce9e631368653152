// SPDX-License-Identifier: MIT
// Packed experts: integer products with the results of ternary weights, in a seventh of the memory.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/layer/smoe.hpp"
#include "headmix/program/copy_parameters.hpp"

namespace mh_moe_packed_test {

using namespace headmix;

namespace {

using Router = SoftmaxTopK<4, 2, gating::raw, loss::first_choice_balance, init<fan_in_uniform>>;

/// The layer with packed weights against the layer that rounds weights in every pass.
template <class Scalar, class Trained, class Packed>
void same_numbers(double tolerance) {
  Module<Trained, Reference<Scalar>, inference> trained(3);
  Module<Packed, Cpu<Scalar>, inference> packed(4);
  copy_parameters(trained, packed);
  Index const rows = 37, d = Trained::model_dim::value;
  std::vector<Scalar> in(static_cast<std::size_t>(rows * d));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<Scalar>(Random(8).normal(i));
  view<Scalar const> const x_view(in.data(), rows, d);
  auto const expected = trained.forward(x_view), found = packed.forward(x_view);
  double largest = 0, error = 0;
  for (Index i = 0; i < rows * d; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected.data[i])));
    error = std::max(error, std::abs(static_cast<double>(expected.data[i] - found.data[i])));
  }
  CHECK(largest > 1e-3);
  CHECK(error < tolerance * largest);
}

template <class W>
using Network = FeedForward<19, W>;
template <class W>
using Layer = MhMoe<36, 2, Router, Network<W>, head_bias, merge_bias, shared_expert<FeedForward<23, W>>>;

TEST_CASE("packed experts give the numbers of ternary ones") {
  same_numbers<double, Layer<weights::ternary>, Layer<weights::packed>>(1e-13);
  same_numbers<float, Layer<weights::ternary>, Layer<weights::packed>>(2e-6);
  using relu = activation::relu;
  same_numbers<double, Smoe<20, Router, FeedForward<33, relu, weights::ternary>>,
               Smoe<20, Router, FeedForward<33, relu, weights::packed>>>(1e-13);
}
TEST_CASE("packed experts need at most a seventh of the memory of float16") {
  using L = MhMoe<768, 3, Router, FeedForward<512, weights::packed>>;
  Module<L, Cpu<float>, inference> m(1);
  double packed = 0, numbers = 0;
  for (auto const& p : m.packed_parameters()) {
    packed += static_cast<double>(p.words.size()) * sizeof(Int);
    numbers += static_cast<double>(p.words.count * p.in * p.out);
  }
  CHECK(numbers == 4 * 3 * 256 * 512);
  CHECK(7 * packed <= 2 * numbers);
}

}  // namespace

}  // namespace mh_moe_packed_test
