// SPDX-License-Identifier: MIT
// Rotary embedding of far positions against angles of long double.

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "headmix/backend/cpu.hpp"
#include "headmix/backend/reference.hpp"

namespace rotary_test {

namespace {

using namespace headmix;

/// The largest error of rotated rows of ones: two heads of 64, with `rows` rows at each of the positions.
template <class B>
double error_of(double theta, std::vector<Int> const& positions, Index rows, bool inverse) {
  using T = typename B::scalar;
  using W = accumulator_t<T>;
  constexpr Index heads = 2, dim = 64, half = dim / 2;
  auto const count = static_cast<Index>(positions.size());
  // A sequence of one token for each position.
  segments s = uniform(count, 1);
  s.past = positions.data();
  std::vector<T> const x(static_cast<std::size_t>(count * rows * heads * dim), T(1.0f));
  std::vector<T> y(x.size());
  view<T> const found(y.data(), count * rows, heads * dim);
  W const base = static_cast<W>(theta);
  B().rotary(found, view<T const>(x.data(), count * rows, heads * dim), view<W const>(&base, 1, 1), s, heads,
             {.inverse = inverse});
  double worst = 0;
  for (Index i = 0; i < count * rows; ++i) {
    for (Index j = 0; j < heads * dim; ++j) {
      Index const c = j % half;
      long double const angle =
          static_cast<long double>(positions[static_cast<std::size_t>(i / rows)]) *
          std::pow(static_cast<long double>(theta), -2 * static_cast<long double>(c) / static_cast<long double>(dim));
      long double const cosine = std::cos(angle), sine = inverse ? -std::sin(angle) : std::sin(angle);
      double const expected = static_cast<double>(j % dim < half ? cosine - sine : cosine + sine);
      worst = (std::max)(worst, std::abs(static_cast<double>(found(i, j)) - expected));
    }
  }
  return worst;
}

TEST_CASE_TEMPLATE("rotary angles of far positions keep their digits, forward and backward", B, Reference<float>,
                   Cpu<float>, Reference<double>, Cpu<double>, Reference<bfloat16>, Cpu<bfloat16>) {
  using T = typename B::scalar;
  double const most = std::is_same_v<T, double> ? 1e-9 : std::is_same_v<T, float> ? 1e-6 : 0x1p-8 + 1e-6;
  std::vector<Int> const positions{0, 1, 100, 4095, 32767, 131071, 1000003, (1 << 20) - 1, 1 << 20};
  for (double const theta : {10000.0, 500000.0}) {
    for (Index const rows : {1, 3}) {
      CHECK(error_of<B>(theta, positions, rows, false) <= most);
      CHECK(error_of<B>(theta, positions, rows, true) <= most);
    }
  }
}

}  // namespace

}  // namespace rotary_test
