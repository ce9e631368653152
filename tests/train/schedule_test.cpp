// SPDX-License-Identifier: MIT
// Schedules of the learning rate against numbers calculated by hand.

#include "headmix/train/schedule.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "../error_of.hpp"

namespace schedule_test {

using namespace headmix;
using namespace headmix::test;
using doctest::Approx;

TEST_CASE("warmup_inverse_sqrt: the rise, then the root") {
  CHECK(warmup_inverse_sqrt(0, 4000, 1e-3) == Approx(1e-3 / 4000).epsilon(1e-14));
  CHECK(warmup_inverse_sqrt(1999, 4000, 1e-3) == Approx(5e-4).epsilon(1e-14));
  CHECK(warmup_inverse_sqrt(3999, 4000, 1e-3) == 1e-3);
  CHECK(warmup_inverse_sqrt(15999, 4000, 1e-3) == Approx(5e-4).epsilon(1e-14));
  CHECK(warmup_inverse_sqrt(0, 0, 2) == 2);
  CHECK(warmup_inverse_sqrt(3, 0, 2) == 1);
  CHECK(warmup_inverse_sqrt((std::numeric_limits<Index>::max)(), 4, 1) == Approx(2 / std::sqrt(0x1p63)).epsilon(1e-14));
  // Vaswani et al. 2017: lrate = d^-1/2 min(n^-1/2, n warmup^-3/2).
  for (Index const n : {1, 7, 4000, 4001, 100000}) {
    double const peak = 1 / std::sqrt(512 * 4000.0), t = static_cast<double>(n);
    double const expected = std::min(1 / std::sqrt(t), t * std::pow(4000.0, -1.5)) / std::sqrt(512.0);
    CHECK(warmup_inverse_sqrt(n - 1, 4000, peak) == Approx(expected).epsilon(1e-13));
  }
}
TEST_CASE("warmup_linear and warmup_polynomial: ends, middle and monotony") {
  for (double const power : {0.5, 1.0, 2.0}) {
    auto const rate = [power](Index s) { return warmup_polynomial(s, 100, 2000, 1e-3, 1e-4, power); };
    CHECK(rate(0) == Approx(1e-5).epsilon(1e-14));
    CHECK(rate(99) == 1e-3);
    CHECK(rate(1049) == Approx(1e-4 + 9e-4 * std::pow(0.5, power)).epsilon(1e-13));
    CHECK(rate(1524) == Approx(1e-4 + 9e-4 * std::pow(0.25, power)).epsilon(1e-13));
    CHECK(rate(1999) == 1e-4);
    CHECK(rate(5000) == 1e-4);
    for (Index s = 1; s < 100; ++s) CHECK(rate(s) > rate(s - 1));
    for (Index s = 100; s < 2000; ++s) CHECK(rate(s) < rate(s - 1));
  }
  for (Index const s : {0, 99, 100, 700, 1999}) {
    CHECK(warmup_linear(s, 100, 2000, 1e-3, 1e-4) == warmup_polynomial(s, 100, 2000, 1e-3, 1e-4, 1));
  }
  CHECK(warmup_linear(0, 0, 0, 1, 0.25) == 0.25);
  CHECK(warmup_linear(4, 100, 5, 2, 1) == Approx(0.1).epsilon(1e-14));
  CHECK(warmup_linear((std::numeric_limits<Index>::max)(), 2, 10, 1, 0.25) == 0.25);
}
TEST_CASE("schedules: errors name the function and what was found") {
  auto const error = [](auto f) { return error_of([&] { static_cast<void>(f()); }); };
  CHECK(says(error([] { return warmup_inverse_sqrt(-1, 2, 1); }), "warmup_inverse_sqrt: expected a step"));
  CHECK(says(error([] { return warmup_inverse_sqrt(1, -2, 1); }), "found 1, -2 and 0"));
  CHECK(says(error([] { return warmup_linear(1, 2, -10, 1, 0); }), "warmup_linear: expected a step"));
  CHECK(says(error([] { return warmup_polynomial(-1, 2, 10, 1, 0, 2); }), "warmup_polynomial: expected a step"));
  for (double const power : {0.0, -1.0, std::nan("")}) {
    CHECK(says(error([&] { return warmup_polynomial(1, 2, 10, 1, 0, power); }),
               "warmup_polynomial: power: expected a finite number above 0, found "));
  }
}

}  // namespace schedule_test
