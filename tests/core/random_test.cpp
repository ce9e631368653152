// SPDX-License-Identifier: MIT
// Philox4x32-10 against the known answers of Random123, and the distributions that use it.

#include "headmix/core/random.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace headmix;

namespace {
bool same_words(philox_block a, philox_block b) {
  for (int i = 0; i < 4; ++i) {
    if (a.word[i] != b.word[i]) return false;
  }
  return true;
}
}  // namespace

TEST_CASE("philox: known answer for counter 0 and key 0") {
  CHECK(same_words(philox({{0, 0, 0, 0}}, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
}
TEST_CASE("philox: known answer for all bits set") {
  CHECK(same_words(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffffffffffff),
                   {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
}
TEST_CASE("philox: known answer for the digits of pi") {
  CHECK(same_words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
                   {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}
TEST_CASE("philox: is a constant expression") {
  static_assert(philox({{0, 0, 0, 0}}, 0).word[0] == 0x6627e8d5);
  static_assert(Random(0).word(0) == 0x6627e8d5 && Random(0).word(3) == 0x9b00dbd8);
  CHECK(Random(0).word(1) == 0xe169c58d);
}
TEST_CASE("random: uniform numbers fill the unit interval evenly") {
  Random const r(7);
  double sum = 0, squares = 0, low = 1, high = 0;
  int const n = 100000;
  for (int i = 0; i < n; ++i) {
    double const u = r.uniform(static_cast<std::uint64_t>(i));
    sum += u;
    squares += u * u;
    low = u < low ? u : low;
    high = u > high ? u : high;
  }
  CHECK(low >= 0);
  CHECK(low < 1e-3);
  CHECK(high < 1);
  CHECK(high > 1 - 1e-3);
  CHECK(std::abs(sum / n - 0.5) < 0.004);
  CHECK(std::abs(squares / n - 1.0 / 3) < 0.004);
}
TEST_CASE("random: normal numbers have the moments of the standard normal distribution") {
  Random const r(3, 5);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbours = 0, last = 0;
  int const n = 100000;
  for (int i = 0; i < n; ++i) {
    double const z = r.normal(static_cast<std::uint64_t>(i));
    CHECK(std::isfinite(z));
    m1 += z;
    m2 += z * z;
    m3 += z * z * z;
    m4 += z * z * z * z;
    neighbours += z * last;
    last = z;
  }
  CHECK(std::abs(m1 / n) < 0.015);
  CHECK(std::abs(m2 / n - 1) < 0.02);
  CHECK(std::abs(m3 / n) < 0.05);
  CHECK(std::abs(m4 / n - 3) < 0.12);
  CHECK(std::abs(neighbours / n) < 0.015);
}
TEST_CASE("random: below(n) reaches every number under n, about equally often") {
  Random const r(11);
  int counts[7] = {};
  for (std::uint64_t i = 0; i < 7000; ++i) {
    auto const k = r.below(i, 7);
    REQUIRE(k < 7);
    ++counts[k];
  }
  for (int const c : counts) CHECK(std::abs(c - 1000) < 150);
}
TEST_CASE("random: an element does not depend on which others were asked for") {
  Random const r(1, 2);
  double const late = r.uniform(1000001), normal = r.normal(77);
  for (std::uint64_t i = 0; i < 100; ++i) (void)r.uniform(i);
  CHECK(r.uniform(1000001) == late);
  CHECK(Random(1, 2).normal(77) == normal);
}
TEST_CASE("random: seeds, numbers and purposes are different sequences") {
  std::set<std::uint32_t> first;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t number = 0; number < 8; ++number) {
      for (std::uint32_t s = 0; s < random_streams; ++s) {
        first.insert(Random(seed, number, static_cast<random_stream>(s)).word(0));
      }
    }
  }
  CHECK(first.size() == 64 * random_streams);
  CHECK(Random(1).word(0) == Random(1, 0, random_stream::own).word(0));
  CHECK(Random(std::uint64_t{1} << 40).word(0) != Random(0).word(0));
  CHECK(Random(0, std::uint64_t{1} << 40).word(0) != Random(0).word(0));
}
