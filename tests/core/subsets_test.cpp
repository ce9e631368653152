// SPDX-License-Identifier: MIT

#include "headmix/core/subsets.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace headmix;

TEST_CASE("subsets: numbers of them") {
  static_assert(binomial(8, 1) == 8 && binomial(8, 2) == 28 && binomial(8, 3) == 56 && binomial(5, 5) == 1);
  static_assert(binomial(3, 4) == 0 && binomial(3, -1) == 0 && binomial(0, 0) == 1);
  static_assert(binomial(60, 30) == 118264581564861424);
  CHECK_THROWS_AS(static_cast<void>(binomial(80, 40)), Error);
}
TEST_CASE("subsets: what is left, in lexicographic order of what is not") {
  Index number = 0;
  for (Index a = 0; a < 6; ++a) {
    for (Index b = a + 1; b < 6; ++b) {
      for (Index c = b + 1; c < 6; ++c, ++number) {
        Index j = 0;
        for (Index e = 0; e < 6; ++e) {
          if (e == a || e == b || e == c) continue;
          CAPTURE(number);
          CHECK(outside_of_subset(6, 3, number, j++) == e);
        }
      }
    }
  }
  CHECK(number == binomial(6, 3));
  static_assert(outside_of_subset(3, 1, 0, 0) == 1 && outside_of_subset(3, 1, 2, 1) == 1);
}
