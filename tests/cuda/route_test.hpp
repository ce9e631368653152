#pragma once
// SPDX-License-Identifier: MIT
// The fused router against the composed one, on the same device. Whoever includes this names the device by
// `using test_device = ...;` at global scope.

#include <doctest/doctest.h>

#include <limits>

#include "cuda/device_array.hpp"
#include "headmix/backend/cuda.hpp"

namespace route_test {

using namespace headmix;
using headmix::testing::device_array;
using headmix::testing::relative_error;

/// The logits, probabilities and choices of n rows of `width` numbers.
template <class T>
struct Routed {
  using W = wide_t<T>;
  typename test_device::queue queue;
  device_array<T, test_device> x, w;
  device_array<W, test_device> z, p;
  device_array<Int, test_device> index;
  Index n, width, experts, k;

  Routed(Index rows, Index d, Index e, Index choices)
      : x(queue, testing::random_numbers<T>(rows * d, 1)),
        w(queue, testing::random_numbers<T>(d * e, 2)),
        z(queue, static_cast<std::size_t>(rows * e)),
        p(queue, static_cast<std::size_t>(rows * e)),
        index(queue, static_cast<std::size_t>(rows * choices)),
        n(rows),
        width(d),
        experts(e),
        k(choices) {}

  void run(bool fused) {
    [[maybe_unused]] testing::strict_scope<test_device> const strict;
    Cuda<T, test_device> backend(queue);
    auto const logits = z.matrix(n, experts), probabilities = p.matrix(n, experts);
    view<T const> const rows = x.matrix(n, width), weights = w.matrix(width, experts);
    if (fused) {
      backend.route(logits, probabilities, index.matrix(n, k), rows, weights);
    } else {
      backend.gemm(logits, rows, weights, false);
      backend.softmax(probabilities, view<W const>(logits));
      backend.top_k(index.matrix(n, k), view<W const>(probabilities));
    }
  }
};

template <class T>
void check_route(Index rows, Index width, Index experts, Index k, bool ties = false) {
  CAPTURE(rows);
  CAPTURE(width);
  CAPTURE(experts);
  Routed<T> fused(rows, width, experts, k), composed(rows, width, experts, k);
  if (ties) {
    std::vector<T> const same(static_cast<std::size_t>(width * experts), static_cast<T>(0.25f));
    fused.w.set(same);
    composed.w.set(same);
  }
  fused.run(true);
  composed.run(false);
  CHECK(relative_error(fused.z.get(), composed.z.get()) < 1e-5);
  CHECK(relative_error(fused.p.get(), composed.p.get()) < 1e-5);
  auto const found = fused.index.get(), expected = composed.index.get();
  auto const p = composed.p.get();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    // Another order of additions may swap what is nearly equal.
    auto const at = [&](Int e) {
      return p[i / static_cast<std::size_t>(k) * static_cast<std::size_t>(experts) + static_cast<std::size_t>(e)];
    };
    REQUIRE(found[i] >= 0);
    CHECK(static_cast<double>(std::abs(at(found[i]) - at(expected[i]))) < 1e-5 * static_cast<double>(at(expected[i])));
  }
}

TEST_CASE("cuda: a fused router on tensor cores equals the composed one") {
  for (Index const experts : {8, 16, 32, 40, 64, 128}) check_route<bfloat16>(70, 72, experts, experts < 16 ? 2 : 4);
  check_route<bfloat16>(1, 200, 32, 8);
  check_route<bfloat16>(0, 64, 32, 8);
  check_route<bfloat16>(64, 64, 8, 8);
}
TEST_CASE("cuda: a fused router without tensor cores equals the composed one") {
  check_route<float>(70, 33, 7, 3);
  check_route<double>(5, 16, 300, 5);
  check_route<bfloat16>(9, 12, 5, 5);
  check_route<float>(0, 8, 4, 2);
}
TEST_CASE("cuda: of equal experts a fused router chooses the first ones") {
  check_route<bfloat16>(3, 64, 32, 5, true);
  check_route<float>(3, 9, 32, 5, true);
  Routed<bfloat16> r(3, 64, 32, 5);
  r.w.set(std::vector<bfloat16>(64 * 32, bfloat16(0.5)));
  r.run(true);
  for (std::size_t i = 0; i < 15; ++i) CHECK(r.index.get()[i] == static_cast<Int>(i % 5));
}
TEST_CASE("cuda: a router passes on what is not a number, and chooses it last") {
  Routed<bfloat16> r(2, 64, 16, 3);
  auto x = r.x.get();
  x[3] = bfloat16(std::numeric_limits<float>::quiet_NaN());
  r.x.set(x);
  r.run(true);
  auto const p = r.p.get();
  for (std::size_t e = 0; e < 16; ++e) CHECK(p[e] != p[e]);
  for (std::size_t e = 16; e < 32; ++e) CHECK(p[e] == p[e]);
  CHECK(r.index.get()[0] == 0);  // all are equally last
}

}  // namespace route_test
