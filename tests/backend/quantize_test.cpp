// SPDX-License-Identifier: MIT
// Edge cases of rounding to 8 bits and to ternary weights, and of sums of their products. Products with packed weights:
// cpu_kernels_test.cpp; all their implementations: tests/bf16_products/ternary_test.cpp.

#include <doctest/doctest.h>

#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/core/aligned_buffer.hpp"

namespace quantize_test {

namespace {

using namespace headmix;

TEST_CASE("halves round to even, and the largest number is 127") {
  std::vector<double> const a{127, 0.5, 1.5, -2.5, 3.49, -127};
  std::vector<double> y(6);
  Cpu<double>{}.absmax_int8(view<double>(y.data(), 1, 6), view<double const>(a.data(), 1, 6));
  CHECK(y == std::vector<double>{127, 0, 2, -2, 3, -127});
}

TEST_CASE("the mean of many floats is right") {
  // A single sum in float would be off by more than the distance of two weights from half of the mean.
  Index const rows = 512, cols = 512;
  std::vector<float> a(static_cast<std::size_t>(rows * cols), 0.1f), y(a.size());
  a[0] = 0.049999f;
  a[1] = 0.050001f;
  Cpu<float>{}.absmean_ternary(view<float>(y.data(), rows, cols), view<float const>(a.data(), rows, cols));
  CHECK(y[0] == 0);
  CHECK(y[1] == doctest::Approx(0.1));
  CHECK(y[2] == y[1]);
}

TEST_CASE("the largest sums have room") {
  // Depths around the range of 16-bit sums, with all numbers 127 and all weights of one sign.
  for (Index const depth : {239, 240, 241, 511, 4096}) {
    CAPTURE(depth);
    for (double const weight : {-2.0, 2.0}) {
      std::vector<double> const x(static_cast<std::size_t>(depth), 3.0), w(x.size(), weight);
      std::vector<Int> packed(static_cast<std::size_t>(packed_ternary::words(depth, 1)));
      packed_ternary::pack(packed.data(), view<double const>(w.data(), depth, 1));
      auto const check = [&]<class Dots>(Dots) {
        double y = 0;
        view<double const> const vx(x.data(), 1, depth);
        serial executor;
        AlignedBuffer scratch(static_cast<std::size_t>(cpu_kernels::packed_gemm_scratch_bytes<Dots>(vx, 1)));
        cpu_kernels::packed_gemm<Dots>(executor, view<double>(&y, 1, 1), vx,
                                       view<Int const>(packed.data(), 1, packed_ternary::words(depth, 1)), {}, {}, 1,
                                       scratch.bytes());
        CHECK(y == doctest::Approx(3 * weight * static_cast<double>(depth)));
      };
      check(cpu_kernels::detail::best_dots{});
      check(cpu_kernels::detail::dots_of_shorts{});
    }
  }
}

}  // namespace

}  // namespace quantize_test
