// SPDX-License-Identifier: MIT
// bfloat16: the conversion to float and back is the identity, and floats are rounded to nearest, ties to even.

#include "headmix/core/scalar.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace {

using headmix::bfloat16;

bfloat16 from_bits(unsigned bits) {
  bfloat16 b;
  b.bits = static_cast<std::uint16_t>(bits);
  return b;
}

static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);
static_assert(static_cast<float>(bfloat16(-1.5)) == -1.5f);
static_assert(std::is_same_v<headmix::accumulator_t<bfloat16>, float>);
static_assert(!std::is_convertible_v<float, bfloat16> && !std::is_convertible_v<bfloat16, float>);

TEST_CASE("bfloat16: all values survive a float") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    auto const f = static_cast<float>(from_bits(bits));
    if (std::isnan(f)) {
      CHECK(std::isnan(static_cast<float>(bfloat16(f))));
    } else {
      CHECK(bfloat16(f).bits == bits);
    }
  }
}
TEST_CASE("bfloat16: a float goes to the closer neighbour, and from the middle to the even one") {
  for (unsigned bits = 0; bits < 0x7f7f; bits += 7) {
    float const low = static_cast<float>(from_bits(bits)), high = static_cast<float>(from_bits(bits + 1));
    float const middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
    unsigned const even = bits % 2 == 0 ? bits : bits + 1;
    CHECK(bfloat16(middle).bits == even);
    CHECK(bfloat16(std::nextafter(middle, low)).bits == bits);
    CHECK(bfloat16(std::nextafter(middle, high)).bits == bits + 1);
    CHECK(bfloat16(-middle).bits == (even | 0x8000u));
  }
}
TEST_CASE("bfloat16: what is too large is infinite, and not a number stays so") {
  CHECK(std::isinf(static_cast<float>(bfloat16(std::numeric_limits<float>::max()))));
  CHECK(std::isinf(static_cast<float>(bfloat16(-std::numeric_limits<float>::infinity()))));
  std::uint32_t const only_low_bits = 0x7f800001;  // truncation to its upper half would give infinity
  float nan;
  std::memcpy(&nan, &only_low_bits, sizeof nan);
  CHECK(std::isnan(static_cast<float>(bfloat16(nan))));
}

}  // namespace
